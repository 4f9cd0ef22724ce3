/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs the event loop. In builds with test gates, and if the environment variable RECLAIM_BLOCKED
 * is set, it also logs each callback that was blocked for longer than that many milliseconds, so
 * that a test can send hostile calls and see that the daemon did not wait for them. Time on a
 * processor, or in a queue for one, does not count: the result does not depend on the load of the
 * machine. */
#pragma once

#include <systemd/sd-event.h>

/* Runs until sd_event_exit() is called. Returns the exit code, or a negative errno. */
#ifdef RECLAIM_TEST_GATES
int loop_run(sd_event *e);
#else
static inline int loop_run(sd_event *e)
{
	return sd_event_loop(e);
}
#endif
