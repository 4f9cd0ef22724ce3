/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "base/zone.h"
#include "support.h"

/* 2024-07-01 12:00 UTC */
#define NOON 1719835200

static int hour(void)
{
	time_t t = NOON;
	struct tm tm;

	ck_assert_ptr_nonnull(localtime_r(&t, &tm));
	return tm.tm_hour;
}

START_TEST(zones_have_names)
{
	static const char *const known[] = { "UTC", "Europe/Berlin", "Etc/GMT+5",
					     "America/Argentina/Buenos_Aires" };
	static const char *const unknown[] = {
		"",          "No/Where",       "Europe",         "europe/berlin/x",
		"CET-1CEST", "/etc/localtime", "../etc/passwd",  "Europe/../UTC",
		"tzdata.zi", "zone.tab",       ":Europe/Berlin",
	};

	for (size_t i = 0; i < ELEMENTSOF(known); i++)
		ck_assert_msg(zone_is_known(known[i]), "%s", known[i]);
	for (size_t i = 0; i < ELEMENTSOF(unknown); i++)
		ck_assert_msg(!zone_is_known(unknown[i]), "%s", unknown[i]);
}
END_TEST

/* Whatever the environment says, and afterwards it is as before. */
START_TEST(zones_do_not_depend_on_the_environment)
{
	static const char *const environments[] = {
		NULL, "", "No/Where", "Pacific/Auckland", ":America/Los_Angeles", "UTC-7"
	};
	char name[ZONE_NAME_SIZE];
	int system = -1;

	for (size_t i = 0; i < ELEMENTSOF(environments); i++) {
		const char *tz = environments[i];
		int before;

		ck_assert_int_eq(tz ? setenv("TZ", tz, 1) : unsetenv("TZ"), 0);
		ck_assert_int_eq(setenv("TZDIR", "/nowhere", 1), 0);
		tzset();
		before = hour();
		ck_assert_int_eq(zone_enter("Europe/Berlin"), 0);
		ck_assert_int_eq(hour(), 14);
		zone_leave();
		ck_assert_int_eq(hour(), before);
		ck_assert_int_eq(zone_enter("UTC"), 0);
		ck_assert_int_eq(hour(), 12);
		zone_leave();
		ck_assert_int_eq(zone_enter(NULL), 0);
		system = system < 0 ? hour() : system;
		ck_assert_int_eq(hour(), system);
		zone_leave();
		ck_assert_int_eq(zone_enter("No/Where"), -ENOENT);
		ck_assert_int_eq(hour(), before);
		zone_leave();
		ck_assert(tz ? getenv("TZ") && strcmp(getenv("TZ"), tz) == 0 : !getenv("TZ"));
	}
	ck_assert_str_eq(zone_name("Europe/Berlin", name, sizeof(name)), "Europe/Berlin");
	ck_assert_str_ne(zone_name(NULL, name, sizeof(name)), "");
}
END_TEST

int main(void)
{
	const TTest *tests[] = { zones_have_names, zones_do_not_depend_on_the_environment };

	return run_case("zone", tests, ELEMENTSOF(tests));
}
