/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "policy/retention.h"
#include "support.h"
#include "base/macros.h"

#define HOUR 3600LL
#define SERIES_MOST 64

/* Which of these times (seconds, newest first) are kept: a K or - for each. */
static void decide(const struct policy_keep *k, const int64_t *times, size_t n, char *ret)
{
	struct periods s = { 0 };

	for (size_t i = 0; i < n; i++)
		ret[i] = periods_step(&s, k, times[i] * NSEC_PER_SEC) ? 'K' : '-';
	ret[n] = '\0';
}

static void keep_parse(struct policy_keep *k, char *words)
{
	char *save = NULL;

	for (char *w = strtok_r(words, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		char *value = strchr(w, '=');
		int rule = 0;

		ck_assert_ptr_nonnull(value);
		*value++ = '\0';
		while (rule < KEEP_RULES && strcmp(w, keep_rule_name((enum keep_rule)rule)) != 0)
			rule++;
		ck_assert_int_lt(rule, KEEP_RULES);
		if (rule == KEEP_WITHIN)
			k->within_usec = strtoull(value, NULL, 10) * HOUR * USEC_PER_SEC;
		else
			k->periods[rule] = strtoull(value, NULL, 10);
	}
}

/* Of entries with the same time it does not matter which are kept, only how many. */
static bool is_same(const int64_t *times, size_t n, const char *a, const char *b)
{
	for (size_t i = 0, j; i < n; i = j) {
		int more = 0;

		for (j = i; j < n && times[j] == times[i]; j++)
			more += (a[j] == 'K') - (b[j] == 'K');
		if (more != 0)
			return false;
	}
	return true;
}

static void check_line(char *line)
{
	char zone[64], rules[256], steps[2048], expected[SERIES_MOST + 1], got[SERIES_MOST + 1];
	int64_t times[SERIES_MOST];
	struct policy_keep k = { 0 };
	char *save = NULL;
	size_t n = 1;

	ck_assert_int_eq(
		sscanf(line, "%63s %255s %ld %2047s %64s", zone, rules, &times[0], steps, expected),
		5);
	for (char *s = strtok_r(steps, ",", &save); s && *s != '-';
	     s = strtok_r(NULL, ",", &save), n++)
		times[n] = times[n - 1] - strtol(s, NULL, 10);
	ck_assert_uint_eq(strlen(expected), n);
	zone_set(zone);
	keep_parse(&k, rules);
	decide(&k, times, n, got);
	ck_assert_msg(is_same(times, n, got, expected), "%s\n%s is ours", line, got);
}

/* The table is made by retention/restic-table. */
START_TEST(same_as_restic)
{
	FILE *f = fopen(RETENTION "/restic.table", "re");
	char *line = NULL;
	size_t cap = 0, n = 0;

	ck_assert_ptr_nonnull(f);
	while (getline(&line, &cap, f) > 0)
		if (line[0] != '#') {
			check_line(line);
			n++;
		}
	ck_assert_uint_eq(n, 1000);
	free(line);
	ck_assert_int_eq(fclose(f), 0);
}
END_TEST

static void week_name(int64_t seconds, char *buf, size_t len)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	(void)gmtime_r(&t, &tm);
	ck_assert_uint_gt(strftime(buf, len, "%G-%V", &tm), 0);
}

/* ISO weeks against those of the C library, over the 400 years in which the calendar repeats. */
START_TEST(weeks_are_those_of_iso_8601)
{
	static const struct policy_keep k = { .periods = { [KEEP_WEEKLY] = 2 } };

	zone_set("UTC");
	for (int64_t day = -200 * 365 - 48; day <= 200 * 365 + 49; day++) {
		struct periods s = { 0 };
		char week[16], before[16];

		week_name(day * 24 * HOUR, week, sizeof(week));
		week_name((day - 1) * 24 * HOUR, before, sizeof(before));
		ck_assert(periods_step(&s, &k, day * 24 * HOUR * NSEC_PER_SEC) != 0);
		ck_assert_msg((periods_step(&s, &k, (day - 1) * 24 * HOUR * NSEC_PER_SEC) != 0) ==
				      (strcmp(week, before) != 0),
			      "%s after %s", week, before);
	}
}
END_TEST

START_TEST(each_rule_says_what_it_keeps)
{
	struct policy_keep k = { .periods = { 1, 1, 2, 1, 1, 1 },
				 .within_usec = 30 * HOUR * USEC_PER_SEC };
	struct periods s = { 0 };

	zone_set("UTC");
	ck_assert_uint_eq(periods_step(&s, &k, 1000000 * NSEC_PER_SEC), (1U << KEEP_RULES) - 1);
	ck_assert_uint_eq(periods_step(&s, &k, (1000000 - 24 * HOUR) * NSEC_PER_SEC),
			  1U << KEEP_DAILY | 1U << KEEP_WITHIN);
	/* The bound itself is outside. */
	ck_assert_uint_eq(periods_step(&s, &k, (1000000 - 30 * HOUR) * NSEC_PER_SEC + 1),
			  1U << KEEP_WITHIN);
	ck_assert_uint_eq(periods_step(&s, &k, (1000000 - 30 * HOUR) * NSEC_PER_SEC), 0);
}
END_TEST

/* The hour before 1970 is an hour, too, and the day one of 1969. */
START_TEST(times_before_the_epoch)
{
	struct policy_keep k = { .periods = { [KEEP_YEARLY] = 2 } };
	struct periods s = { 0 };

	zone_set("UTC");
	ck_assert(periods_step(&s, &k, 0));
	ck_assert(periods_step(&s, &k, -1));
	ck_assert(!periods_step(&s, &k, -2 * NSEC_PER_SEC));
}
END_TEST

/* With an entry every 20 minutes, through days of 23, 25 and no hours, and weeks across the ends of
 * years: as many days, weeks and hours are kept as the rule says, each by its newest entry. */
START_TEST(test_attack_19_zones_and_their_changes)
{
	static const struct {
		const char *zone;
		int64_t newest;
	} rows[] = {
		{ "Europe/Berlin", 1711850400 }, /* 31 March 2024, an hour after the gap */
		{ "Europe/Berlin", 1729994400 }, /* 27 October 2024, in the hour that comes twice */
		{ "Australia/Lord_Howe", 1712415600 }, /* half an hour twice */
		{ "Pacific/Apia", 1325300000 },        /* behind a day that there was not */
		{ "America/St_Johns", 1131000000 },    /* changes a minute after midnight */
		{ "Pacific/Kiritimati", 1704067200 },  { "Pacific/Niue", 1704067200 },
	};
	static const enum keep_rule rules[] = { KEEP_HOURLY, KEEP_DAILY, KEEP_WEEKLY };
	static const int64_t spans[] = { HOUR, 24 * HOUR, 7 * 24 * HOUR };

	for (size_t i = 0; i < ELEMENTSOF(rows); i++)
		for (size_t k = 0; k < ELEMENTSOF(rules); k++) {
			struct policy_keep keep = { 0 };
			struct periods s = { 0 };
			int64_t t = rows[i].newest, last = t;
			unsigned kept = 0;

			keep.periods[rules[k]] = 7;
			zone_set(rows[i].zone);
			for (; rows[i].newest - t < 12 * spans[k]; t -= 20 * 60) {
				if (!periods_step(&s, &keep, t * NSEC_PER_SEC))
					continue;
				kept++;
				ck_assert_int_le(last - t, spans[k] + 24 * HOUR);
				last = t;
			}
			ck_assert_msg(kept == 7, "%s %zu: %u", rows[i].zone, k, kept);
			ck_assert_int_ge(rows[i].newest - last, 5 * spans[k]);
		}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { same_as_restic, weeks_are_those_of_iso_8601,
				 each_rule_says_what_it_keeps, times_before_the_epoch,
				 test_attack_19_zones_and_their_changes };

	return run_case("retention", tests, ELEMENTSOF(tests));
}
