/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The time that a name carries: "db-2024-01-31.tar.gz" by "%Y-%m-%d". Pure, but for the local time
 * zone, in which it is meant unless the format has %z or %s. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Is this a format that tells a time well enough: conversions of strptime(3) that are known here,
 * with a year and a day in it, or with %s? */
bool name_time_check(const char *format);

/* Looks for the first place in a name that reads as the format says, with no further digit at
 * either end of it. Returns true and *ret_nsec (since the epoch), or false if there is none: days
 * that no calendar has and years before 1970 are none, so that no slip makes an entry ancient. */
bool name_time_parse(const char *format, const char *name, int64_t *ret_nsec);
