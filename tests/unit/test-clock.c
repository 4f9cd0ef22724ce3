/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "policy/clock.h"

#include <errno.h>
#include <string.h>

#include "support.h"
#include "base/macros.h"

#define HOUR (3600 * (int64_t)USEC_PER_SEC)
#define DAY (24 * HOUR)
#define NOW (1700000000 * (int64_t)USEC_PER_SEC)
#define BOOT "0d6ba1c5-92c7-4a0e-8d6c-1f2a3b4c5d6e"
#define OTHER "ffffffff-92c7-4a0e-8d6c-1f2a3b4c5d6e"

/* From a reading at NOW, five hours after the boot. */
static const struct jump_row {
	const char *boot;
	int64_t boottime, realtime;
	bool synchronized;
	int64_t jump;
} jump_rows[] = {
	{ BOOT, 5 * HOUR, NOW, false, 0 },
	{ BOOT, 6 * HOUR, NOW + HOUR, false, 0 },
	/* Days in which nothing ran, or that were slept through, are no jump. */
	{ BOOT, 5 * HOUR + 90 * DAY, NOW + 90 * DAY, false, 0 },
	/* Nor are leap seconds, summer time taken for it, and what time servers put right. */
	{ BOOT, 6 * HOUR, NOW + 2 * HOUR, false, 0 },
	{ BOOT, 5 * HOUR, NOW + DAY, false, 0 },
	{ BOOT, 5 * HOUR, NOW - DAY, false, 0 },
	{ BOOT, 5 * HOUR, NOW + DAY + 1, false, DAY + 1 },
	{ BOOT, 5 * HOUR, NOW - DAY - 1, false, -DAY - 1 },
	{ BOOT, 6 * HOUR, NOW + HOUR + 3650 * DAY, false, 3650 * DAY },
	/* A clock that stands still while the machine runs was set back. */
	{ BOOT, 5 * HOUR + 3 * DAY, NOW, false, -3 * DAY },
	/* NTP confirms the time. */
	{ BOOT, 6 * HOUR, NOW + HOUR + 3650 * DAY, true, 0 },
	{ BOOT, 5 * HOUR, NOW - 3650 * DAY, true, 0 },
	{ OTHER, HOUR, NOW + HOUR, false, 0 },
	{ OTHER, HOUR, NOW + 30 * DAY, true, 0 },
	{ OTHER, HOUR, NOW + 30 * DAY, false, 30 * DAY },
	{ OTHER, HOUR, NOW - 2 * DAY, true, 0 },
	{ OTHER, HOUR, NOW - 2 * DAY, false, -2 * DAY },
	{ OTHER, HOUR, 0, false, -NOW },
};

START_TEST(jumps_are_found)
{
	struct clock_reading before = { .boot = BOOT,
					.boottime_usec = (uint64_t)(5 * HOUR),
					.realtime_usec = NOW };

	for (size_t i = 0; i < ELEMENTSOF(jump_rows); i++) {
		const struct jump_row *t = &jump_rows[i];
		struct clock_reading now = { .boottime_usec = (uint64_t)t->boottime,
					     .realtime_usec = t->realtime,
					     .synchronized = t->synchronized };

		memcpy(now.boot, t->boot, strlen(t->boot) + 1);
		ck_assert_msg(clock_jump_usec(&before, &now) == t->jump, "row %zu: %lld", i,
			      (long long)clock_jump_usec(&before, &now));
	}
}
END_TEST

START_TEST(readings_are_read_as_written)
{
	struct clock_reading a = { .boot = BOOT, .boottime_usec = 123456789, .realtime_usec = -5 },
			     b, c = a;
	char line[CLOCK_LINE], longest[CLOCK_LINE];

	clock_format(line, &a);
	ck_assert_int_eq(clock_parse(line, &b), 0);
	ck_assert_str_eq(b.boot, a.boot);
	ck_assert(b.boottime_usec == a.boottime_usec && b.realtime_usec == a.realtime_usec);
	c.boottime_usec = INT64_MAX / 4;
	c.realtime_usec = -INT64_MAX / 4;
	clock_format(longest, &c);
	ck_assert_int_eq(clock_parse(longest, &b), 0);
	ck_assert_uint_eq(strlen(line), strlen(longest));
}
END_TEST

START_TEST(damage_is_noticed)
{
	static const char *const lines[] = {
		"",
		"\n",
		BOOT,
		BOOT "\n",
		BOOT " 1\n",
		BOOT " 1 2",
		BOOT " 1 2x\n",
		BOOT " 1 2 3\n",
		BOOT " -1 2\n",
		BOOT " 1 99999999999999999999\n",
		BOOT " 1 9223372036854775807\n",
		BOOT "0 1 2\n",
		" 1 2\n",
		" 1 2 3\n",
		BOOT "0 1\n",
	};
	struct clock_reading untouched = { .realtime_usec = 7 };

	for (size_t i = 0; i < ELEMENTSOF(lines); i++)
		ck_assert_msg(clock_parse(lines[i], &untouched) == -EBADMSG, "%s", lines[i]);
	ck_assert_int_eq(untouched.realtime_usec, 7);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { jumps_are_found, readings_are_read_as_written, damage_is_noticed };

	return run_case("clock", tests, ELEMENTSOF(tests));
}
