/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Letting others' requests go first, one by one. Pure; a part of the controller.
 *
 * A disk with one head serves requests one after another, and each of ours between two of others'
 * costs them two seeks: a sync, which is several requests in a row, meets one of ours before each
 * of them. A small piece or a small share does not help against that: whoever comes in mid-piece
 * has it all the same. So before each few entries it is seen whether a request is in flight, and
 * as long as there is, and for a moment longer, nothing is begun. The rate's floor bounds it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct yield {
	uint64_t seen_usec;  /* when a request was last in flight */
	uint64_t ahead_usec; /* the time at which, at the floor, all would be done that is */
};

/* Nothing of ours is under way, and so many requests are. Returns when to go on: now, or a later
 * moment at which to look again. */
uint64_t yield_check(struct yield *y, uint64_t now_usec, uint64_t in_flight);

/* So much was done as takes `floor_usec` at the floor of the rate; 0: there is none. */
void yield_spent(struct yield *y, uint64_t now_usec, uint64_t floor_usec);
