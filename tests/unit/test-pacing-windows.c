/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "config/config.h"
#include "config/pacing-windows.h"
#include "support.h"

#define NEVER "never"

/* Of UTC, "2026-03-29 00:59:59". */
static uint64_t moment(const char *text)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);

	ck_assert_msg(end && *end == '\0', "%s", text);
	return (uint64_t)timegm(&tm) * USEC_PER_SEC;
}

/* At `at` this one of the windows is in force (-1: none), until `until`. */
static void check(const struct config_window *v, size_t n, const char *at, int expected,
		  const char *until)
{
	struct window_state s = windows_at(v, n, moment(at));
	uint64_t then = strcmp(until, NEVER) == 0 ? UINT64_MAX : moment(until);
	int found = s.window ? (int)(s.window - v) : -1;
	time_t t = (time_t)(s.until_usec / USEC_PER_SEC);
	char text[32] = NEVER;

	if (s.until_usec != UINT64_MAX)
		(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", gmtime(&t));
	ck_assert_msg(found == expected, "%s: %d and not %d", at, found, expected);
	ck_assert_msg(s.until_usec == then, "%s: until %s and not %s", at, text, until);
}

static struct config_window window(const char *span, uint64_t rate)
{
	ck_assert_msg(window_span_check(span) == NULL, "%s", span);
	return (struct config_window){ .span = (char *)span, .rate = rate };
}

START_TEST(spans_are_read)
{
	static const char *const good[] = {
		"Mon",          "Mon,Wed..Fri",    "monday..FRI",
		"Sat..Tue",     "08:00..18:00",    "00:00..24:00",
		"23:59..00:00", "08:00:01..08:01", "Mon..Fri 08:00..18:00",
	};
	static const char *const bad[] = {
		"",
		" ",
		"Mo",
		"Mondays",
		"Mon..",
		"Mon-Fri",
		"Mon,",
		",Mon",
		"Mon ",
		"Mon  08:00..18:00",
		"8:00..18:00",
		"08:00",
		"08..18",
		"08:00-18:00",
		"08:00..08:00",
		"24:00..08:00",
		"08:00..24:01",
		"08:60..09:00",
		"08:00..25:00",
		"008:00..09:00",
		"08:00..18:00 Mon",
		"08:00..18:00 UTC",
		"08:00..18:00,20:00..22:00",
		"*-*-* 08:00..18:00",
		"2026-11-24 08:00..18:00",
		"daily",
		"Mon *:00",
		"Mon 08:00..18:00\n",
	};

	for (size_t i = 0; i < ELEMENTSOF(good); i++)
		ck_assert_msg(window_span_check(good[i]) == NULL, "%s", good[i]);
	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert_msg(window_span_check(bad[i]) != NULL, "\"%s\"", bad[i]);
}
END_TEST

START_TEST(without_windows_nothing_changes)
{
	zone_set("UTC");
	check(NULL, 0, "2026-11-24 12:00:00", -1, NEVER);
}
END_TEST

START_TEST(a_window_begins_and_ends)
{
	const struct config_window v[] = { window("Mon..Fri 08:00..18:00", 1) };

	zone_set("UTC");
	check(v, 1, "2026-11-24 07:59:59", -1, "2026-11-24 08:00:00");
	check(v, 1, "2026-11-24 08:00:00", 0, "2026-11-24 18:00:00");
	check(v, 1, "2026-11-24 17:59:59", 0, "2026-11-24 18:00:00");
	check(v, 1, "2026-11-24 18:00:00", -1, "2026-11-25 08:00:00");
	/* A Friday evening: Monday morning is next. */
	check(v, 1, "2026-11-27 18:00:00", -1, "2026-11-30 08:00:00");
}
END_TEST

START_TEST(a_window_goes_over_midnight)
{
	const struct config_window v[] = { window("Fri,Sun 22:00..06:00", 0) };

	zone_set("UTC");
	check(v, 1, "2026-11-27 21:59:59", -1, "2026-11-27 22:00:00");
	check(v, 1, "2026-11-27 23:59:59", 0, "2026-11-28 06:00:00");
	check(v, 1, "2026-11-28 00:00:00", 0, "2026-11-28 06:00:00");
	check(v, 1, "2026-11-28 06:00:00", -1, "2026-11-29 22:00:00");
	/* From the last day of the week into the first. */
	check(v, 1, "2026-11-30 05:59:59", 0, "2026-11-30 06:00:00");
	check(v, 1, "2026-11-30 06:00:00", -1, "2026-12-04 22:00:00");
}
END_TEST

START_TEST(whole_days_and_weeks)
{
	const struct config_window weekend[] = { window("Sat,Sun", 0) };
	const struct config_window always[] = { window("00:00..24:00", 1) };

	zone_set("UTC");
	check(weekend, 1, "2026-11-28 00:00:00", 0, "2026-11-30 00:00:00");
	check(weekend, 1, "2026-11-30 00:00:00", -1, "2026-12-05 00:00:00");
	check(always, 1, "2026-11-28 12:00:00", 0, NEVER);
}
END_TEST

START_TEST(the_slowest_is_in_force)
{
	const struct config_window v[] = {
		window("08:00..18:00", 100),
		window("12:00..12:15", 0),
		window("14:00..20:00", 200),
		window("15:00..16:00", 100),
	};

	zone_set("UTC");
	check(v, 4, "2026-11-24 11:00:00", 0, "2026-11-24 12:00:00");
	check(v, 4, "2026-11-24 12:00:00", 1, "2026-11-24 12:15:00");
	/* That others begin or end meanwhile changes nothing. */
	check(v, 4, "2026-11-24 12:15:00", 0, "2026-11-24 18:00:00");
	check(v, 4, "2026-11-24 18:00:00", 2, "2026-11-24 20:00:00");
}
END_TEST

START_TEST(summer_time_begins)
{
	/* In Berlin, on 2026-03-29 at 01:00 UTC, 02:00 becomes 03:00. */
	const struct config_window night[] = { window("22:00..06:00", 0) };
	const struct config_window skipped[] = { window("02:15..02:45", 0) };
	const struct config_window half[] = { window("02:30..04:00", 0) };

	zone_set("Europe/Berlin");
	check(night, 1, "2026-03-28 20:59:59", -1, "2026-03-28 21:00:00");
	check(night, 1, "2026-03-28 21:00:00", 0, "2026-03-29 04:00:00");
	check(night, 1, "2026-03-29 04:00:00", -1, "2026-03-29 20:00:00");
	check(skipped, 1, "2026-03-28 02:00:00", -1, "2026-03-30 00:15:00");
	check(half, 1, "2026-03-29 00:59:59", -1, "2026-03-29 01:00:00");
	check(half, 1, "2026-03-29 01:00:00", 0, "2026-03-29 02:00:00");
}
END_TEST

START_TEST(summer_time_ends)
{
	/* In Berlin, on 2026-10-25 at 01:00 UTC, 03:00 becomes 02:00. */
	const struct config_window night[] = { window("22:00..06:00", 0) };
	const struct config_window twice[] = { window("02:15..02:45", 0) };
	const struct config_window split[] = { window("01:00..02:30", 0) };

	zone_set("Europe/Berlin");
	check(night, 1, "2026-10-24 20:00:00", 0, "2026-10-25 05:00:00");
	check(night, 1, "2026-10-25 05:00:00", -1, "2026-10-25 21:00:00");
	check(twice, 1, "2026-10-25 00:15:00", 0, "2026-10-25 00:45:00");
	check(twice, 1, "2026-10-25 00:45:00", -1, "2026-10-25 01:15:00");
	check(twice, 1, "2026-10-25 01:15:00", 0, "2026-10-25 01:45:00");
	check(split, 1, "2026-10-24 23:00:00", 0, "2026-10-25 00:30:00");
	check(split, 1, "2026-10-25 00:59:59", -1, "2026-10-25 01:00:00");
	check(split, 1, "2026-10-25 01:00:00", 0, "2026-10-25 01:30:00");
}
END_TEST

/* A day that there was not, and a jump of half an hour. */
START_TEST(strange_clocks)
{
	const struct config_window friday[] = { window("Fri", 0) };
	const struct config_window night[] = { window("01:45..02:15", 0) };

	zone_set("Pacific/Apia");
	check(friday, 1, "2011-12-29 09:00:00", -1, "2012-01-05 10:00:00");
	zone_set("Australia/Lord_Howe");
	/* On 2026-04-04 at 15:00 UTC, 02:00 becomes 01:30. */
	check(night, 1, "2026-04-04 14:45:00", 0, "2026-04-04 15:00:00");
	check(night, 1, "2026-04-04 15:00:00", -1, "2026-04-04 15:15:00");
	check(night, 1, "2026-04-04 15:15:00", 0, "2026-04-04 15:45:00");
}
END_TEST

/* Whatever windows_at says of the future is what it says then, and not before. */
START_TEST(what_is_said_comes_true)
{
	const struct config_window v[] = {
		window("Mon..Fri 08:00..18:00", 100),
		window("12:00..12:15", 0),
		window("Sat..Sun", 50),
		window("02:30..03:30", 0),
		window("Tue 23:59..00:01", 10),
	};
	uint64_t t = moment("2026-03-20 00:00:00"), end = moment("2026-11-10 00:00:00");

	zone_set("Europe/Berlin");
	while (t < end) {
		struct window_state now = windows_at(v, ELEMENTSOF(v), t), then;

		ck_assert_uint_gt(now.until_usec, t);
		for (uint64_t at = t; at < now.until_usec; at += 977 * USEC_PER_SEC) {
			then = windows_at(v, ELEMENTSOF(v), at);
			ck_assert_ptr_eq(then.window, now.window);
			ck_assert_uint_eq(then.until_usec, now.until_usec);
		}
		then = windows_at(v, ELEMENTSOF(v), now.until_usec - 1);
		ck_assert_ptr_eq(then.window, now.window);
		then = windows_at(v, ELEMENTSOF(v), now.until_usec);
		ck_assert_ptr_ne(then.window, now.window);
		t = now.until_usec;
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { spans_are_read,           without_windows_nothing_changes,
				 a_window_begins_and_ends, a_window_goes_over_midnight,
				 whole_days_and_weeks,     the_slowest_is_in_force,
				 summer_time_begins,       summer_time_ends,
				 strange_clocks,           what_is_said_comes_true };

	return run_case("pacing-windows", tests, ELEMENTSOF(tests));
}
