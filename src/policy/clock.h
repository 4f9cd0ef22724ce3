/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds out if the clock was set. Ages mean nothing if it is wrong, so nothing is deleted by age
 * until NTP, or a person, confirms the time. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_BOOT_ID 37

/* What the clocks said at one moment. */
struct clock_reading {
	char boot[CLOCK_BOOT_ID]; /* which boot, as the kernel's boot_id */
	uint64_t boottime_usec;   /* since then, suspended or not */
	int64_t realtime_usec;    /* since 1970 */
	bool synchronized;        /* by NTP, according to the kernel; not written down */
};

/* Returns by how much the wall clock was set between two readings, if that is more than a day and
 * the clock is not synchronized now; else 0. Setting a clock by hand makes the kernel count it as
 * not synchronized, so a synchronized clock is right whatever it was set to before. It is not known
 * how long the machine was off between two boots, so there the whole time counts as a step. */
int64_t clock_jump_usec(const struct clock_reading *before, const struct clock_reading *now);

/* Room for a reading as a line, which has the same length always. */
#define CLOCK_LINE 100

void clock_format(char buf[static CLOCK_LINE], const struct clock_reading *c);
/* Returns 0 or -EBADMSG. */
int clock_parse(const char *line, struct clock_reading *ret);
