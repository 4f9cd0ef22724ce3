/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Points in time as people write and read them: microseconds of CLOCK_REALTIME, in local time. Pure
 * but for the time zone. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TIMESTAMP_SIZE 80

/* Microseconds of CLOCK_REALTIME. */
uint64_t realtime_usec(void);

/* Parses "06:00", "6:00:30" (the next such time after now), "2026-11-22 06:00" (which must not have
 * passed), or a time span from now such as "2h". Returns 0, -EINVAL if it is none of these, -ERANGE
 * if it has passed or is too far away. */
int timestamp_parse(const char *s, uint64_t now_usec, uint64_t *ret_usec);

/* Writes "2026-11-22 06:00:00 (in 2h 5min)" or "... (2min 3s ago)" into buf and returns buf. */
char *timestamp_format(char *buf, size_t len, uint64_t usec, uint64_t now_usec);

/* Writes "in 2h", "2min ago" or "now": one unit, for a column of a table, into buf, for which
 * DISTANCE_SIZE is always enough, and returns buf. */
#define DISTANCE_SIZE 32
char *distance_format(char *buf, uint64_t usec, uint64_t now_usec);
