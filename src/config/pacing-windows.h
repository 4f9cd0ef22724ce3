/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pacing windows: spans of the week in which no job goes faster than a rate, or none runs. By the
 * clock on the wall: whatever it shows, summer time or a clock that was set, a window holds while
 * that is in its span. Pure but for the time zone, which is libc's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct config_window;

/* One for each hour of the week. Which one is in force, and until when, is found by looking at all
 * of them, again and again. */
#define PACING_WINDOWS_MOST 168

/* NULL if it is a span such as "Mon..Fri 08:00..18:00", else what was expected. */
const char *window_span_check(const char *span);

struct window_state {
	const struct config_window *window; /* the slowest that holds; NULL: none does */
	uint64_t until_usec; /* another one or none from then on; UINT64_MAX: never */
};

/* Which of n windows is in force at this time of CLOCK_REALTIME. */
struct window_state windows_at(const struct config_window *v, size_t n, uint64_t now_usec);
