/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Timers of the event loop that come once, and are set again by the call that has set them first.
 */
#pragma once

#include <stdbool.h>
#include <systemd/sd-event.h>

/* Calls on_time when the clock (CLOCK_MONOTONIC or CLOCK_BOOTTIME) has come to `usec`, within the
 * accuracy; 0: a quarter of a second. *source is made if it is NULL, and is the caller's; else it
 * is set anew, and what else it is made with stays. `name` (static) is for debugging. Returns 0 or
 * a negative errno; a timer that could be made can be set. */
int timer_at(sd_event *event, sd_event_source **source, clockid_t clock, uint64_t usec,
	     uint64_t accuracy_usec, sd_event_time_handler_t on_time, void *userdata,
	     const char *name);
/* The same so long from now, by CLOCK_MONOTONIC. */
int timer_after(sd_event *event, sd_event_source **source, uint64_t usec, uint64_t accuracy_usec,
		sd_event_time_handler_t on_time, void *userdata, const char *name);

/* Whether it is still to come; NULL is not. */
bool timer_is_set(sd_event_source *source);
