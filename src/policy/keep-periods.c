/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "keep-periods.h"

#include <time.h>

#include "base/macros.h"

/* The number of weeks that a year of ISO 8601 has is 53 if it begins on a Thursday, or on a
 * Wednesday and is a leap year: then the last week of the year before has that number. */
static int weeks_of(int year)
{
	/* The weekday of 31 December, 0 is Sunday; years are proleptic Gregorian. */
	int last = (year + year / 4 - year / 100 + year / 400) % 7;
	int before = (year - 1 + (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400) % 7;

	return last == 4 || before == 3 ? 53 : 52;
}

static int64_t iso_week(const struct tm *tm)
{
	int year = tm->tm_year + 1900, weekday = (tm->tm_wday + 6) % 7 + 1;
	int week = (tm->tm_yday + 1 - weekday + 10) / 7;

	if (week < 1)
		week = weeks_of(--year);
	else if (week > weeks_of(year)) {
		year++;
		week = 1;
	}
	return (int64_t)year * 100 + week;
}

/* A number that is the same for times in the same period, as the wall clock shows them: an hour
 * that comes twice when summer time ends is one. */
static int64_t period_of(enum keep_rule rule, const struct tm *tm)
{
	int64_t year = tm->tm_year + 1900LL, month = year * 100 + tm->tm_mon + 1,
		day = month * 100 + tm->tm_mday;

	switch (rule) {
	case KEEP_HOURLY:
		return day * 100 + tm->tm_hour;
	case KEEP_DAILY:
		return day;
	case KEEP_WEEKLY:
		return iso_week(tm);
	case KEEP_MONTHLY:
		return month;
	case KEEP_YEARLY:
		return year;
	case KEEP_LAST:
	case KEEP_WITHIN:
	case KEEP_RULES:
		break;
	}
	return 0;
}

static bool is_kept(struct periods *s, const struct policy_keep *k, enum keep_rule rule,
		    const struct tm *tm)
{
	int64_t period = period_of(rule, tm);

	if (s->used[rule] >= k->periods[rule])
		return false;
	if (rule != KEEP_LAST && s->used[rule] > 0 && s->seen[rule] == period)
		return false;
	s->used[rule]++;
	s->seen[rule] = period;
	return true;
}

unsigned periods_step(struct periods *s, const struct policy_keep *k, int64_t time_nsec)
{
	time_t t = time_nsec / NSEC_PER_SEC - (time_nsec % NSEC_PER_SEC < 0);
	uint64_t behind_nsec;
	struct tm tm = { 0 };
	unsigned kept = 0;

	if (!s->begun)
		s->newest_nsec = time_nsec;
	s->begun = true;
	behind_nsec = (uint64_t)s->newest_nsec - (uint64_t)time_nsec;
	if (behind_nsec < k->within_usec * 1000)
		kept |= 1U << KEEP_WITHIN;
	(void)localtime_r(&t, &tm);
	for (int rule = KEEP_LAST; rule < KEEP_WITHIN; rule++)
		if (is_kept(s, k, (enum keep_rule)rule, &tm))
			kept |= 1U << rule;
	return kept;
}

const char *keep_rule_name(enum keep_rule rule)
{
	static const char *const names[KEEP_RULES] = { "last",    "hourly", "daily", "weekly",
						       "monthly", "yearly", "within" };

	return names[rule];
}
