/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "discard-wait.h"

#include "base/macros.h"

/* They follow a commit within a few ms, if there are any. */
#define PAUSE (4 * USEC_PER_MSEC)
#define LULL 700
/* Foreign requests come one after the other, too; but hardly ever for so long without a moment of
 * none while no discard is among them. */
#define BUSY (2 * USEC_PER_MSEC)
#define MOST (500 * USEC_PER_MSEC)

void discard_wait_begin(struct discard_wait *w, uint64_t now_usec, uint64_t freed_bytes)
{
	w->freed_bytes = freed_bytes;
	w->last_bytes = w->base_bytes;
	w->began_usec = w->moved_usec = w->idle_usec = now_usec;
}

bool discard_wait_poll(struct discard_wait *w, uint64_t now_usec, uint64_t discarded_bytes,
		       uint64_t in_flight)
{
	if (discarded_bytes != w->last_bytes)
		w->moved_usec = now_usec;
	w->last_bytes = discarded_bytes;
	if (in_flight == 0)
		w->idle_usec = now_usec;
	if (now_usec - w->began_usec >= MOST)
		return false;
	/* All that was freed; but ext discards what was free around it, too. */
	if (discarded_bytes - w->base_bytes >= w->freed_bytes / 10 * 9)
		return now_usec - w->moved_usec < LULL;
	return now_usec - w->moved_usec < PAUSE || now_usec - w->idle_usec >= BUSY;
}

uint64_t discard_wait_cost_usec(const struct discard_wait *w)
{
	return w->moved_usec - w->began_usec;
}
