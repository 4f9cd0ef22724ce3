/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "policy/name-time.h"
#include "policy/selection.h"
#include "support.h"
#include "base/macros.h"

static const struct row {
	const char *format, *name;
	int64_t msec; /* since 1970; or one of these */
} rows[] = {
#define NONE (-1)
#define AMBIGUOUS (-2)
	{ "%Y-%m-%d", "db-2024-01-31.tar.gz", 1706677200000 },
	{ "%Y-%m-%d", "2024-07-01", 1719806400000 },
	{ "%Y%m%d-%H%M%S", "x20240131-235959.dump", 1706763599000 },
	{ "%Y%m%d", "host12-20240131.gz", 1706677200000 },
	{ "%F_%T", "a_2024-01-31_10:20:30", 1706714430000 },
	{ "%s", "backup.1700000000.tar", 1700000000000 },
	{ "%s", "clip-1700000000123.mp4", 1700000000123 },
	{ "%s", "clip-1700000000123000.mp4", 1700000000123 },
	{ "%Y-%m-%dT%H:%M:%S%z", "2024-01-31T10:20:30+0530.x", 1706676630000 },
	{ "%Y-%m-%dT%H:%M:%S%z", "2024-01-31T10:20:30+05:30.x", 1706676630000 },
	{ "%Y-%m-%dT%H:%M:%S%z", "2024-01-31T10:20:30Z.x", 1706696430000 },
	{ "%Y.%j", "log.2024.366", 1735621200000 },
	{ "%d.%b.%Y", "31.Jan.2024", 1706677200000 },
	{ "%d %B %Y", "31 january 2024", 1706677200000 },
	{ "%e %b %Y", " 1 Jul 2024", 1719806400000 },
	{ "%Y/%m/%d", "2024/01/31/full", 1706677200000 },
	{ "%G-W%V-%u", "2024-W05-3.tar", 1706677200000 },
	{ "%Y-%m-%d %H", "2024-06-01 05", 1717232400000 },
	{ "%Y%%%m%%%d", "2024%01%31", 1706677200000 },
	/* A Z behind a time is UTC, in the format or only in the name. */
	{ "%Y%m%dT%H%M%SZ", "x20240131T102030Z.gz", 1706696430000 },
	{ "%Y%m%dT%H%M%S", "x20240131T102030Z.gz", 1706696430000 },
	{ "%Y%m%dT%H%M%SZ", "x20240131T102030.gz", NONE },
	{ "%Y%m%dT%H%M%S", "x20240131T102030Zone", 1706714430000 },
	{ "%YZ%m%d", "2024Z0131", 1706677200000 },
	/* Of an hour that comes twice, the later one; a time that is skipped, from before the gap.
	 */
	{ "%F-%H%M", "2024-11-03-0130", 1730615400000 },
	{ "%F-%H%M", "2024-03-10-0230", 1710055800000 },
	/* No calendar has such a day, week or time. */
	{ "%Y-%m-%d", "db-2024-02-30", NONE },
	{ "%Y-%m-%d", "db-2023-02-29", NONE },
	{ "%Y-%m-%d", "db-2024-13-01", NONE },
	{ "%Y-%m-%d", "db-2024-00-01", NONE },
	{ "%Y-%m-%d", "db-2024-01-00", NONE },
	{ "%Y.%j", "log.2023.366", NONE },
	{ "%G-W%V", "2023-W53", NONE },
	{ "%F %H", "2024-06-01 24", NONE },
	{ "%F%z", "2024-06-01+1500", NONE },
	{ "%Y-%m-%d", "db", NONE },
	{ "%Y-%m-%d", "", NONE },
	{ "%Y-%m-%d", "db-2024-01", NONE },
	/* Widths are fixed, and a piece of a number is no date. */
	{ "%Y-%m-%d", "db-2024-1-31", NONE },
	{ "%y-%m-%d", "db-24-1-3", NONE },
	{ "%Y%m%d", "job-201989", NONE },
	{ "%y%m%d", "job-2019890", NONE },
	{ "%Y-%m-%d", "db-24-01-31", NONE },
	{ "%Y-%m-%d", "db-0024-01-31", NONE },
	{ "%Y-%m-%d", "db-12024-01-31", NONE },
	{ "%Y-%m-%d", "db-2024-01-311", NONE },
	{ "%Y%m%d", "x120240131", NONE },
	{ "%Y-%m-%d", "x-1969-12-31", NONE },
	{ "%Y-%m-%d", "x-1960-01-01-2024-01-31", 1706677200000 },
	/* Seconds have ten digits, and no zero in front. */
	{ "%s", "x-1", NONE },
	{ "%s", "notes.mp4", NONE },
	{ "%s", "x-170000000", NONE },
	{ "%s", "x-17000000001", NONE },
	{ "%s", "x-0123456789", NONE },
	{ "%s", "cam2-1700000000.mp4", 1700000000000 },
	/* Several times are none; the same one may be there twice. */
	{ "%Y-%m-%d", "2024-01-01-to-2024-01-31", AMBIGUOUS },
	{ "%y-%m-%d", "01-02-03-04", AMBIGUOUS },
	{ "%s", "1700000000-1700000001", AMBIGUOUS },
	{ "%Y", "2023/2024.tar", AMBIGUOUS },
	{ "%Y-%m-%d", "2024-01-31/db-2024-01-31", 1706677200000 },
	{ "%Y/%m/%Y-%m-%d", "2024/01/2024-01-31", 1706677200000 },
	{ "%Y/%m/%Y-%m-%d", "2024/02/2024-01-31", NONE },
	/* A month, a week or a year counts from its end. */
	{ "%Y-%m", "log-2024-01.gz", 1706763599999 },
	{ "%Y%m", "log-202402.gz", 1709269199999 },
	{ "%Y", "archive-2023.tar", 1704085199999 },
	{ "%G-W%V", "2020-W53.tar", 1609736399999 },
	{ "%Y-%m", "log-2024-01-31.gz", 1706763599999 },
	{ "%Y-%m", "log-2024-011", NONE },
	/* While it lasts, for now; and if it is still to come, from its beginning. */
	{ "%Y-%m", "log-2024-06.gz", 1718000000000 },
	{ "%Y", "archive-2024.tar", 1718000000000 },
	{ "%Y-%m", "log-2024-07.gz", 1719806400000 },
};

START_TEST(names_have_times)
{
	ck_assert_int_eq(setenv("TZ", "EST5EDT,M3.2.0,M11.1.0", 1), 0);
	tzset();
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		const struct row *t = &rows[i];
		int64_t got = -1;
		enum name_time found =
			name_time_find(t->format, t->name, 1718000000 * NSEC_PER_SEC, &got);

		ck_assert_msg(name_time_check(t->format), "%s", t->format);
		ck_assert_msg(found == (t->msec == NONE        ? NAME_TIME_NONE
					: t->msec == AMBIGUOUS ? NAME_TIME_AMBIGUOUS
							       : NAME_TIME_FOUND),
			      "%s: %s: %d", t->format, t->name, found);
		ck_assert_msg(t->msec < 0 || got / 1000000 == t->msec, "%s: %s: %ld", t->format,
			      t->name, (long)(got / 1000000));
	}
}
END_TEST

/* What the C library's calendar makes of each day of many years, in zones that change their clocks,
 * whatever was asked before. */
START_TEST(every_day_is_that_of_the_library)
{
	static const char *const zones[] = { "Europe/Berlin", "Pacific/Apia",
					     "Australia/Lord_Howe" };

	for (size_t i = 0; i < ELEMENTSOF(zones); i++) {
		ck_assert_int_eq(setenv("TZ", zones[i], 1), 0);
		tzset();
		for (int day = 0; day < 60 * 365; day += 3) {
			struct tm tm = {
				.tm_year = 71, .tm_mday = 1 + day, .tm_hour = 12, .tm_isdst = -1
			};
			time_t t = mktime(&tm);
			char name[64], week[64];
			int64_t got, by_week;

			ck_assert_uint_gt(strftime(name, sizeof(name), "x%Y-%m-%d-%H", &tm), 0);
			ck_assert_uint_gt(strftime(week, sizeof(week), "x%G-W%V-%u", &tm), 0);
			ck_assert_int_eq(name_time_find("%Y-%m-%d-%H", name, 0, &got),
					 NAME_TIME_FOUND);
			ck_assert_msg(got == t * NSEC_PER_SEC, "%s %s", zones[i], name);
			ck_assert_int_eq(name_time_find("%G-W%V-%u", week, 0, &by_week),
					 NAME_TIME_FOUND);
			ck_assert_msg(got - by_week >= 11 * 3600 * NSEC_PER_SEC &&
					      got - by_week <= 13 * 3600 * NSEC_PER_SEC,
				      "%s %s", zones[i], week);
		}
	}
}
END_TEST

START_TEST(formats_must_tell_a_day)
{
	static const char *const bad[] = { "",      "x",          "%",         "%m",
					   "%m-%d", "%Q",         "%c",        "%H:%M",
					   "%Y%d",  "%%Y%%m%%d",  "%Y-%m-%d%", "%Ey-%m-%d",
					   "%y-%m", "%Y-W%V",     "%G-%m",     "%V",
					   "%Y %H", "%Y-%m %H:%M" };
	static const char *const good[] = { "%s",       "%F",    "%y%m%d", "%Y-%j", "a%%%F",
					    "%e %B %Y", "%Y-%m", "%G-W%V", "%Y" };

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert_msg(!name_time_check(bad[i]), "%s", bad[i]);
	for (size_t i = 0; i < ELEMENTSOF(good); i++)
		ck_assert_msg(name_time_check(good[i]), "%s", good[i]);
}
END_TEST

static const struct series_row {
	const char *expression, *name, *series;
} series_rows[] = {
	{ NULL, "anything", "" },
	{ "^([a-z]+)-", "db-1", "db" },
	{ "^([a-z]+)-", "1-db", NULL },
	{ "^([^/]+)/", "host/db-1", "host" },
	{ "^(pg|my)-([a-z]+)", "pg-x-1", "pg" SERIES_SEPARATOR "x" },
	{ "^(a)?(b)", "b", SERIES_SEPARATOR "b" },
	{ "(.*)", "too-long-for-it", NULL },
};

START_TEST(names_belong_to_series)
{
	for (size_t i = 0; i < ELEMENTSOF(series_rows); i++) {
		const struct series_row *t = &series_rows[i];
		const struct policy p = { .group_by = (char *)t->expression };
		struct selection *s = NULL;
		char buf[12];

		ck_assert_int_eq(selection_new(&s, &p), 0);
		ck_assert_msg((selection_series(s, t->name, buf, sizeof(buf)) == 1) ==
				      (t->series != NULL),
			      "%s", t->name);
		if (t->series)
			ck_assert_str_eq(buf, t->series);
		selection_free(s);
	}
	ck_assert(!series_check("(a)"));
	ck_assert(series_check("(a"));
	ck_assert(series_check("a"));
	ck_assert(series_check("[z-a](b)"));
	ck_assert(series_check("(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)"));
}
END_TEST

int main(void)
{
	const TTest *tests[] = { names_have_times, every_day_is_that_of_the_library,
				 formats_must_tell_a_day, names_belong_to_series };

	return run_case("name-time", tests, ELEMENTSOF(tests));
}
