/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Times of day, as --by takes them: where summer time begins and ends, and where it does not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/output/timestamps.h"
#include "support.h"
#include "base/macros.h"

#define HOUR (3600 * USEC_PER_SEC)
#define DAY (24 * HOUR)

/* 2026-11-21 11:30:15 UTC, a Saturday. */
#define NOW (1795260615 * USEC_PER_SEC)

static void zone(const char *tz)
{
	ck_assert_int_eq(setenv("TZ", tz, 1), 0);
	tzset();
}

static uint64_t at(const char *s, uint64_t now)
{
	uint64_t v = 0;

	ck_assert_msg(timestamp_parse(s, now, &v) == 0, "%s", s);
	return v;
}

START_TEST(a_time_of_day_is_the_next_one)
{
	uint64_t midnight = NOW - 11 * HOUR - 30 * 60 * USEC_PER_SEC - 15 * USEC_PER_SEC;

	zone("UTC");
	ck_assert_uint_eq(at("12:00", NOW), midnight + 12 * HOUR);
	ck_assert_uint_eq(at("06:00", NOW), midnight + DAY + 6 * HOUR);
	ck_assert_uint_eq(at("6:00", NOW), midnight + DAY + 6 * HOUR);
	ck_assert_uint_eq(at("11:30:16", NOW), NOW + USEC_PER_SEC);
	/* This very second is not to come any more. */
	ck_assert_uint_eq(at("11:30:15", NOW), NOW + DAY);
	ck_assert_uint_eq(at("11:30", NOW), NOW - 15 * USEC_PER_SEC + DAY);
	ck_assert_uint_eq(at("00:00", NOW), midnight + DAY);
}
END_TEST

START_TEST(the_last_day_of_a_month_has_a_next_one)
{
	/* 2026-12-31 23:59:30 UTC */
	uint64_t now = 1798761570 * USEC_PER_SEC;

	zone("UTC");
	ck_assert_uint_eq(at("00:00", now), now + 30 * USEC_PER_SEC);
}
END_TEST

START_TEST(local_time_is_meant)
{
	/* One hour ahead of UTC in November: 12:30:15 there. */
	zone("CET-1CEST,M3.5.0,M10.5.0/3");
	ck_assert_uint_eq(at("12:31", NOW), NOW + 45 * USEC_PER_SEC);
	ck_assert_uint_eq(at("12:30", NOW), NOW - 15 * USEC_PER_SEC + DAY);
}
END_TEST

START_TEST(a_day_may_be_longer_or_shorter)
{
	/* 2026-10-25 00:30 CEST: summer time ends at 03:00, so that 06:00 is 6.5 hours away. */
	uint64_t autumn = 1792881000 * USEC_PER_SEC;
	/* 2026-03-29 00:30 CET: it begins at 02:00, so that 06:00 is 4.5 hours away. */
	uint64_t spring = 1774740600 * USEC_PER_SEC;

	zone("CET-1CEST,M3.5.0,M10.5.0/3");
	ck_assert_uint_eq(at("06:00", autumn), autumn + 6 * HOUR + HOUR / 2);
	ck_assert_uint_eq(at("06:00", spring), spring + 4 * HOUR + HOUR / 2);
	/* At noon of the day that has no 02:30: that of the next one is 14.5 hours away. */
	ck_assert_uint_eq(at("02:30", spring + 10 * HOUR + HOUR / 2), spring + 25 * HOUR);
}
END_TEST

START_TEST(a_date_must_be_to_come)
{
	uint64_t v = 42;

	zone("UTC");
	ck_assert_uint_eq(at("2026-11-22 11:30:15", NOW), NOW + DAY);
	ck_assert_uint_eq(at("2026-11-21 11:31", NOW), NOW + 45 * USEC_PER_SEC);
	ck_assert_int_eq(timestamp_parse("2026-11-21 11:30", NOW, &v), -ERANGE);
	ck_assert_int_eq(timestamp_parse("1969-11-21 11:30", NOW, &v), -ERANGE);
	ck_assert_int_eq(timestamp_parse("9999-11-21 11:30", NOW, &v), -ERANGE);
	ck_assert_uint_eq(v, 42);
}
END_TEST

START_TEST(a_span_counts_from_now)
{
	ck_assert_uint_eq(at("2h", NOW), NOW + 2 * HOUR);
	ck_assert_uint_eq(at("1h 30min", NOW), NOW + 3 * HOUR / 2);
	ck_assert_uint_eq(at("90s", NOW), NOW + 90 * USEC_PER_SEC);
}
END_TEST

START_TEST(nonsense_is_refused)
{
	static const char *const bad[] = { "",      "soon",      "24:00",
					   "12:60", "12:00x",    "12:00:",
					   "noon",  "12:00 CET", "2026-13-01 12:00",
					   "90" };
	uint64_t v = 42;

	zone("UTC");
	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert_msg(timestamp_parse(bad[i], NOW, &v) == -EINVAL, "%s", bad[i]);
	ck_assert_int_eq(timestamp_parse("-2h", NOW, &v), -ERANGE);
	ck_assert_int_eq(timestamp_parse("200y", NOW, &v), -ERANGE);
	ck_assert_int_eq(timestamp_parse("99999999999999999y", NOW, &v), -ERANGE);
	ck_assert_uint_eq(v, 42);
}
END_TEST

START_TEST(distances_are_one_unit)
{
	char b[TIMESTAMP_SIZE];

	ck_assert_str_eq(distance_format(b, NOW, NOW), "now");
	ck_assert_str_eq(distance_format(b, NOW - USEC_PER_SEC / 2, NOW), "now");
	ck_assert_str_eq(distance_format(b, NOW - 9 * USEC_PER_SEC, NOW), "9s ago");
	ck_assert_str_eq(distance_format(b, NOW + 45 * USEC_PER_SEC, NOW), "in 45s");
	ck_assert_str_eq(distance_format(b, NOW + HOUR + 1, NOW), "in 1h");
	ck_assert_str_eq(distance_format(b, NOW - 3 * DAY, NOW), "3d ago");
}
END_TEST

START_TEST(moments_are_local_and_exact)
{
	char b[TIMESTAMP_SIZE];

	zone("UTC");
	ck_assert_str_eq(timestamp_format(b, sizeof(b), NOW + HOUR + 60 * USEC_PER_SEC, NOW),
			 "2026-11-21 12:31:15 (in 1h 1min)");
	zone("CET-1");
	ck_assert_str_eq(timestamp_format(b, sizeof(b), NOW - 90 * USEC_PER_SEC, NOW),
			 "2026-11-21 12:28:45 (1min 30s ago)");
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		a_time_of_day_is_the_next_one, the_last_day_of_a_month_has_a_next_one,
		local_time_is_meant,           a_day_may_be_longer_or_shorter,
		a_date_must_be_to_come,        a_span_counts_from_now,
		nonsense_is_refused,           distances_are_one_unit,
		moments_are_local_and_exact,
	};

	return run_case("timestamps", tests, ELEMENTSOF(tests));
}
