/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Was the clock set? Ages mean nothing if it is wrong, so what goes by them waits until a
 * person has said that it is right. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_BOOT_ID 37

/* What the clocks said at one moment. */
struct clock_reading {
	char boot[CLOCK_BOOT_ID]; /* which boot, as the kernel's boot_id */
	uint64_t boottime_usec;   /* since then, suspended or not */
	int64_t realtime_usec;    /* since 1970 */
	bool synchronized;        /* with other machines, says the kernel; not written down */
};

/* By how much the wall clock was set between two readings, if that is more than a day; else 0.
 * Between two boots it is not known how long the machine was off, so that there a step forward
 * counts only if the clock has not been synchronized since. */
int64_t clock_jump_usec(const struct clock_reading *before, const struct clock_reading *now);

/* Room for a reading as a line, which has the same length always. */
#define CLOCK_LINE 100

void clock_format(char buf[static CLOCK_LINE], const struct clock_reading *c);
/* Returns 0 or -EBADMSG. */
int clock_parse(const char *line, struct clock_reading *ret);
