/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has the discards held that a btrfs makes by itself, minutes after files were deleted
 * (discard=async): by reclaim-discards, which goes on when this process has ended. */
#pragma once

#include <stdbool.h>

#include "pacing/discards/discard-request.h"

struct discard_hold;

/* Has so much been deleted that discarding it may hurt another program? That is what btrfs discards
 * at once at most, unless it is told otherwise; a file has 4 KiB at least. */
static inline bool discard_hold_matters(uint64_t entries, uint64_t bytes)
{
	return bytes + 4096 * entries >= UINT64_C(64) << 20;
}

/* Starts it. Takes what starting a program takes. Returns 0 or a negative errno: -EPERM for another
 * user than root, who may not set the limits; -ENOENT if the program is not installed; -ENOMEM, or
 * what making a socket or a process says. */
int discard_hold_new(struct discard_hold **ret, const struct discard_request *q);

/* What a foreign request may wait for a discard, as of now, in microseconds. */
void discard_hold_target(struct discard_hold *h, uint64_t target_usec);

/* Are they held, or will they be as soon as another process is done? NULL is accepted. */
bool discard_hold_works(const struct discard_hold *h);

/* The deletion is over. It puts the limits back when what was freed is discarded. NULL is accepted;
 * returns NULL. */
struct discard_hold *discard_hold_free(struct discard_hold *h);

/* At the start: has put back what was left by one that was killed. */
void discard_hold_recover(void);
