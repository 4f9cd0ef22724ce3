/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "retention.h"

#include <assert.h>
#include <stdlib.h>
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

/* ---- entries ----------------------------------------------------------------------------------
 */

/* Orders by series; within one the newest is first, and of the same time the name that is last. */
static int by_series(const void *a, const void *b, void *userdata)
{
	const struct policy_entry *v = userdata, *x = &v[*(const uint32_t *)a],
				  *y = &v[*(const uint32_t *)b];
	int r = strcmp(x->series, y->series);

	return r != 0 ? r : entry_compare(y, x);
}

/* Returns true if the entry has no place in the order of its series. */
static bool is_apart(struct policy_entry *e, int64_t now_nsec)
{
	if (e->disposition == DISPOSITION_NO_TIME || e->disposition == DISPOSITION_NO_SERIES ||
	    e->disposition == DISPOSITION_NOT_EMPTY)
		return true;
	if (e->time_nsec <= now_nsec)
		return false;
	if (e->disposition == DISPOSITION_UNDECIDED)
		e->disposition = DISPOSITION_FUTURE;
	return true;
}

/* Returns what the rules say about the `nth` entry of its series, the newest being the first. */
static enum disposition rules_say(const struct policy *p, const struct policy_entry *e,
				  uint64_t nth, int64_t now_nsec)
{
	uint64_t age_usec = ((uint64_t)now_nsec - (uint64_t)e->time_nsec) / 1000;

	if (!policy_has_rules(p))
		return DISPOSITION_NO_RULE;
	if (e->kept_by)
		return DISPOSITION_KEPT;
	if (nth <= p->min_count)
		return DISPOSITION_MIN_COUNT;
	if (age_usec < p->min_age_usec)
		return DISPOSITION_MIN_AGE;
	if (policy_has_keep(p))
		return DISPOSITION_NOT_KEPT;
	if (p->max_age_usec > 0 && age_usec > p->max_age_usec)
		return DISPOSITION_MAX_AGE;
	return DISPOSITION_WITHIN_LIMITS;
}

static void series_decide(const struct policy *p, struct policy_entry *v, const uint32_t *order,
			  size_t n, int64_t now_nsec)
{
	struct periods periods = { 0 };
	uint64_t nth = 0;

	for (size_t i = 0; i < n; i++) {
		struct policy_entry *e = &v[order[i]];

		e->kept_by = 0;
		e->stays = false;
		e->wanted = DISPOSITION_UNDECIDED;
		if (is_apart(e, now_nsec))
			continue;
		static_assert(KEEP_RULES <= 8, "each has a bit of kept_by");
		e->kept_by = (uint8_t)periods_step(&periods, &p->keep, e->time_nsec);
		e->wanted = (uint8_t)rules_say(p, e, ++nth, now_nsec);
		if (e->disposition == DISPOSITION_UNDECIDED)
			e->disposition = e->wanted;
		else if (disposition_refuses((enum disposition)e->disposition))
			e->stays = disposition_deletes((enum disposition)e->wanted);
	}
}

void retention_decide(const struct policy *p, struct policy_entries *l, int64_t now_nsec,
		      uint32_t *order)
{
	size_t from = 0;

	for (size_t i = 0; i < l->n; i++)
		order[i] = l->v[i].unit = (uint32_t)i;
	if (l->n > 0)
		qsort_r(order, l->n, sizeof(*order), by_series, l->v);
	for (size_t i = 1; i <= l->n; i++)
		if (i == l->n || strcmp(l->v[order[i]].series, l->v[order[from]].series) != 0) {
			series_decide(p, l->v, order + from, i - from, now_nsec);
			from = i;
		}
}
