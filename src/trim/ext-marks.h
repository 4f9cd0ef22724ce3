/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has ext4 know that a block group is trimmed, which was trimmed in several ranges.
 *
 * ext4 keeps that for a group if one call had all of it, and then leaves the group out until
 * something is freed in it (EXT4_GROUP_INFO_WAS_TRIMMED); else each trim would discard all that is
 * free once more. A call for the whole group with a least size that no run in it reaches trims
 * nothing, and counts. As ext4 also keeps the least size of the last call, and leaves no group out
 * for a smaller one, another call with the usual size follows, for blocks that are in use.
 *
 * What was freed since the group was looked at is not trimmed yet. It is looked for before, and
 * then the group is left as it is; and once more after, and then the call that follows is for that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ext-runs.h"

struct ext_marks {
	uint64_t start, end; /* of the group that was trimmed in part; 0: there is none */
	uint8_t bitmap[EXT_BITMAP_MOST]; /* of it, when that began */
};

/* A call of FITRIM. */
struct ext_marks_call {
	uint64_t start, bytes, min_bytes;
};

/* Ranges have come from `from` to `at`. Returns true if a group is to be marked: all of it was
 * trimmed, and in more than one range. */
bool ext_marks_trimmed(struct ext_marks *m, const struct ext_runs *r, uint64_t from, uint64_t at);

/* The call that marks it. Returns false if it is to be left as it is. Reads its bitmap anew. */
bool ext_marks_begin(struct ext_marks *m, struct ext_runs *r, struct ext_marks_call *ret);

/* It was made: the call that follows, with the least size of the others. */
void ext_marks_end(struct ext_marks *m, struct ext_runs *r, uint64_t min_bytes,
		   struct ext_marks_call *ret);
