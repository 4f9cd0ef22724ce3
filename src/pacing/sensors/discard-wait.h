/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waits for the discards of what a quantum freed: they are part of what it costs foreign requests,
 * and come after the sync. How many there will be is not known (unwritten extents have none), so
 * the wait ends when they have come or none is coming. Pure.
 *
 * What a device says of a discard it says when that is done: one of 64 MiB may show nothing for
 * 32 ms. It is told from none by what is in flight all that time; to give up on it would take the
 * largest for the cheapest. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct discard_wait {
	uint64_t base_bytes; /* discarded when the quantum was begun; the caller's to set */
	uint64_t freed_bytes, last_bytes;
	uint64_t began_usec, moved_usec, idle_usec;
};

/* Begins after the sync of a quantum that freed so much; base_bytes is set. */
void discard_wait_begin(struct discard_wait *w, uint64_t now_usec, uint64_t freed_bytes);

/* So much is discarded by now, ever, and so many requests of all processes are in flight. False:
 * done. */
bool discard_wait_poll(struct discard_wait *w, uint64_t now_usec, uint64_t discarded_bytes,
		       uint64_t in_flight);

/* What it took until the last of them; the time in which nothing came is not theirs. */
uint64_t discard_wait_cost_usec(const struct discard_wait *w);
