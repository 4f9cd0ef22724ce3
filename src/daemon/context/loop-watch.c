/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "loop-watch.h"

#ifdef RECLAIM_TEST_GATES
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/units.h"
#include "log.h"

/* Returns the microseconds that this thread has neither run nor waited for a processor, counted
 * from some moment in the past. fd: its schedstat in /proc. */
static int64_t blocked_usec(int fd)
{
	uint64_t ran = 0, queued = 0;
	char text[80] = "";

	if (pread(fd, text, sizeof(text) - 1, 0) < 0 ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &queued) != 2)
		abort();
	return (int64_t)now_usec() - (int64_t)((ran + queued) / 1000);
}

int loop_run(sd_event *e)
{
	const char *text = getenv("RECLAIM_BLOCKED");
	int64_t most = text ? strtoll(text, NULL, 10) * (int64_t)USEC_PER_MSEC : 0;
	_cleanup_close_ int fd = -1;
	int code = 0, r = 0;

	if (!text)
		return sd_event_loop(e);
	fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	while (r >= 0 && sd_event_get_state(e) != SD_EVENT_FINISHED) {
		int64_t usec;

		r = sd_event_prepare(e);
		if (r == 0)
			r = sd_event_wait(e, UINT64_MAX);
		if (r <= 0)
			continue;
		usec = -blocked_usec(fd);
		r = sd_event_dispatch(e);
		usec += blocked_usec(fd);
		if (usec > most)
			log_line(LOG_ERR,
				 "A callback of the event loop was blocked for %" PRId64 " ms.",
				 usec / (int64_t)USEC_PER_MSEC);
	}
	if (r >= 0)
		r = sd_event_get_exit_code(e, &code);
	return r < 0 ? r : code;
}
#endif
