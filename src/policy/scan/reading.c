/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "reading.h"

#include <time.h>

#include "base/fd.h"
#include "base/macros.h"

#define LONG_ENOUGH USEC_PER_MSEC

/* A scan is never cancelled. */
static const _Atomic bool never;

static uint64_t cpu_usec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
}

static bool is_limited(const struct scan_reading *r)
{
	return r->pace->step(r->pace->userdata) != UINT64_MAX;
}

/* May what is open still go on? */
static bool lasts(const struct scan_reading *r)
{
	if (!r->limited)
		return !is_limited(r);
	return now_usec() - r->began_usec < LONG_ENOUGH;
}

void reading_go_on(struct scan_reading *r)
{
	struct pace_budget budget;

	if (!r->pace || (r->open && lasts(r)))
		return;
	reading_end(r);
	r->open = r->pace->begin(r->pace->userdata, &never, &budget);
	r->limited = is_limited(r);
	r->began_usec = now_usec();
	r->cpu_usec = cpu_usec();
}

void reading_end(struct scan_reading *r)
{
	uint64_t took, ran;

	if (!r->open)
		return;
	r->open = false;
	took = now_usec() - r->began_usec;
	ran = cpu_usec() - r->cpu_usec;
	(void)r->pace->spent(r->pace->userdata, 0, 0, took - MIN(ran, took));
}
