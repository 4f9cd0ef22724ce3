/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "yield.h"

#include "base/macros.h"

/* Between two requests of one sync, or of somebody who reads on, there is less than that. */
#define LULL (2 * USEC_PER_MSEC)
/* A request of a disk with a head takes some milliseconds. */
#define SAMPLE_EVERY 500
/* What was done faster than at the floor earns so much waiting at most. */
#define AHEAD_MOST USEC_PER_SEC

uint64_t yield_check(struct yield *y, uint64_t now_usec, uint64_t in_flight)
{
	uint64_t at;

	if (in_flight > 0)
		y->seen_usec = now_usec;
	at = in_flight > 0 ? now_usec + SAMPLE_EVERY : MAX(y->seen_usec + LULL, now_usec);
	return now_usec < y->ahead_usec ? at : now_usec;
}

void yield_spent(struct yield *y, uint64_t now_usec, uint64_t floor_usec)
{
	if (floor_usec == 0)
		y->ahead_usec = now_usec + AHEAD_MOST;
	else
		y->ahead_usec =
			MIN(MAX(y->ahead_usec, now_usec) + floor_usec, now_usec + AHEAD_MOST);
}
