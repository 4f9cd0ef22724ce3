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
	int64_t seconds; /* -1: none */
} rows[] = {
	{ "%Y-%m-%d", "db-2024-01-31.tar.gz", 1706677200 },
	{ "%Y-%m-%d", "2024-07-01", 1719806400 },
	{ "%Y%m%d-%H%M%S", "x20240131-235959.dump", 1706763599 },
	{ "%Y%m%d", "host12-20240131.gz", 1706677200 },
	{ "%F_%T", "a_2024-01-31_10:20:30", 1706714430 },
	{ "%s", "backup.1700000000.tar", 1700000000 },
	{ "%Y-%m-%dT%H:%M:%S%z", "2024-01-31T10:20:30+0530.x", 1706676630 },
	{ "%Y.%j", "log.2024.366", 1735621200 },
	{ "%d.%b.%Y", "31.Jan.2024", 1706677200 },
	{ "%Y/%m/%d", "2024/01/31/full", 1706677200 },
	/* The second hour of two is not known: the zone's first guess is as good. */
	{ "%Y-%m-%d %H", "2024-06-01 05", 1717232400 },
	/* No such day, or not that day. */
	{ "%Y-%m-%d", "db-2024-02-30", -1 },
	{ "%Y-%m-%d", "db-2023-02-29", -1 },
	{ "%Y-%m-%d", "db-2024-13-01", -1 },
	{ "%Y.%j", "log.2023.366", -1 },
	{ "%Y-%m-%d", "db", -1 },
	{ "%Y-%m-%d", "", -1 },
	{ "%Y-%m-%d", "db-2024-01", -1 },
	/* A piece of a number is no year, and the year 24 was not this one. */
	{ "%Y-%m-%d", "db-24-01-31", -1 },
	{ "%Y-%m-%d", "db-0024-01-31", -1 },
	{ "%Y-%m-%d", "db-12024-01-31", -1 },
	{ "%Y-%m-%d", "db-2024-01-311", -1 },
	{ "%Y%m%d", "x120240131", -1 },
	{ "%s", "x-1", 1 },
	{ "%Y-%m-%d", "x-1969-12-31", -1 },
	{ "%Y-%m-%d", "x-1960-01-01-2024-01-31", 1706677200 },
};

START_TEST(names_have_times)
{
	ck_assert_int_eq(setenv("TZ", "EST5EDT,M3.2.0,M11.1.0", 1), 0);
	tzset();
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		const struct row *t = &rows[i];
		int64_t got = -1000000000;
		bool found = name_time_parse(t->format, t->name, &got);

		ck_assert_msg(name_time_check(t->format), "%s", t->format);
		ck_assert_msg(found == (t->seconds >= 0), "%s: %s", t->format, t->name);
		ck_assert_msg(got == t->seconds * 1000000000, "%s: %s: %ld", t->format, t->name,
			      (long)(got / 1000000000));
	}
}
END_TEST

START_TEST(formats_must_tell_a_day)
{
	static const char *const bad[] = { "",          "x",         "%",   "%Y",    "%Y-%m",
					   "%m-%d",     "%Q",        "%c",  "%H:%M", "%%Y%%m%%d",
					   "%Y-%m-%d%", "%Ey-%m-%d", "%Y%d" };
	static const char *const good[] = { "%s", "%F", "%y%m%d", "%Y-%j", "a%%%F", "%e %B %Y" };

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
		ck_assert_msg(selection_series(s, t->name, buf, sizeof(buf)) == (t->series != NULL),
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
	const TTest *tests[] = { names_have_times, formats_must_tell_a_day,
				 names_belong_to_series };

	return run_case("name-time", tests, ELEMENTSOF(tests));
}
