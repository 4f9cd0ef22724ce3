/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "timer.h"

#include <time.h>

int timer_at(sd_event *event, sd_event_source **source, clockid_t clock, uint64_t usec,
	     uint64_t accuracy_usec, sd_event_time_handler_t on_time, void *userdata,
	     const char *name)
{
	int r;

	if (*source) {
		r = sd_event_source_set_time(*source, usec);
		return r < 0 ? r : sd_event_source_set_enabled(*source, SD_EVENT_ONESHOT);
	}
	r = sd_event_add_time(event, source, clock, usec, accuracy_usec, on_time, userdata);
	if (r >= 0)
		(void)sd_event_source_set_description(*source, name);
	return r;
}

int timer_after(sd_event *event, sd_event_source **source, uint64_t usec, uint64_t accuracy_usec,
		sd_event_time_handler_t on_time, void *userdata, const char *name)
{
	uint64_t now;
	int r = sd_event_now(event, CLOCK_MONOTONIC, &now);

	return r < 0 ? r
		     : timer_at(event, source, CLOCK_MONOTONIC, now + usec, accuracy_usec, on_time,
				userdata, name);
}

bool timer_is_set(sd_event_source *source)
{
	int enabled = SD_EVENT_OFF;

	return source && sd_event_source_get_enabled(source, &enabled) > 0;
}
