/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "keep-periods.h"

#include <string.h>
#include <time.h>

#include "base/macros.h"

/* The rules, and which part of a time that is written by PERIOD_FORMAT is the same in the same
 * period: nanoseconds reach no year that has not four digits. It is the time that the wall clock
 * shows: an hour that comes twice when summer time ends is one. */
#define PERIOD_FORMAT "%Y%m%d%H%G%V"
static const struct {
	const char *name;
	size_t from, len;
} rules[KEEP_RULES] = {
	[KEEP_LAST] = { "last", 0, 0 },       [KEEP_HOURLY] = { "hourly", 0, 10 },
	[KEEP_DAILY] = { "daily", 0, 8 },     [KEEP_WEEKLY] = { "weekly", 10, 6 },
	[KEEP_MONTHLY] = { "monthly", 0, 6 }, [KEEP_YEARLY] = { "yearly", 0, 4 },
	[KEEP_WITHIN] = { "within", 0, 0 },
};

unsigned periods_step(struct periods *s, const struct policy_keep *k, int64_t time_nsec)
{
	time_t t = time_nsec / NSEC_PER_SEC - (time_nsec % NSEC_PER_SEC < 0);
	char period[PERIOD_SIZE] = "";
	struct tm tm = { 0 };
	unsigned kept = 0;

	if (!s->begun)
		s->newest_nsec = time_nsec;
	s->begun = true;
	if ((uint64_t)s->newest_nsec - (uint64_t)time_nsec < k->within_usec * 1000)
		kept |= 1U << KEEP_WITHIN;
	(void)localtime_r(&t, &tm);
	(void)strftime(period, sizeof(period), PERIOD_FORMAT, &tm);
	for (unsigned rule = KEEP_LAST; rule < KEEP_WITHIN; rule++) {
		size_t from = rules[rule].from;

		if (s->used[rule] >= k->periods[rule] ||
		    (rule != KEEP_LAST && s->used[rule] > 0 &&
		     memcmp(s->seen[rule] + from, period + from, rules[rule].len) == 0))
			continue;
		s->used[rule]++;
		memcpy(s->seen[rule], period, sizeof(period));
		kept |= 1U << rule;
	}
	return kept;
}

const char *keep_rule_name(enum keep_rule rule)
{
	return rules[rule].name;
}
