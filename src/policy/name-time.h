/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The time in a name: "db-2024-01-31.tar.gz" by "%Y-%m-%d". Pure, but for the time zone, which is
 * that of the process; formats with %s, %z or Z do not depend on it.
 *
 * Each conversion has a fixed width, as date(1) prints it, and digits are matched only as whole
 * runs: "20240131" is no part of "120240131". An epoch time, %s, is a run of 10 digits for seconds,
 * of 13 for milliseconds or of 16 for microseconds. Dates that no calendar has and times before
 * 1970 do not match. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Returns true if a format determines a time well enough. It needs %s, or a year with or without a
 * month or a day, or an ISO year and week: %Y, %Y-%m, %Y-%m-%d, %G-W%V. */
bool name_time_check(const char *format);

enum name_time {
	NAME_TIME_NONE,      /* nothing in the name matches */
	NAME_TIME_FOUND,     /* one time, even if it is there twice */
	NAME_TIME_AMBIGUOUS, /* several times */
};

/* Finds all places in a name that read as the format says, and sets *ret_nsec, since the epoch, if
 * they are the same time.
 *
 * A date without a time of day stands for its first moment. A year, month or week stands for its
 * last moment, because entries may be added to such a thing until its end; and while it lasts, for
 * `now_nsec`. */
enum name_time name_time_find(const char *format, const char *name, int64_t now_nsec,
			      int64_t *ret_nsec);
