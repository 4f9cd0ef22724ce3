/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rest after a discard that took much longer than a piece may. Pure; a part of the controller.
 *
 * How much one discard covers is not ours to choose: ext4 trims, with what was freed, all of the
 * free space behind it up to the next block in use, which can be most of a block group (128 MiB:
 * 60 ms where a disk takes 0.5 ms for each MiB), however small the piece was. Nobody is served in
 * that time. What is ours is how often that happens: such a time is followed by so much of calm
 * that it is no part of others' 99 of 100 requests. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct discard_cooldown {
	uint64_t until_usec;
};

/* So many discards ended lately, and took so long, summed over them; each may take `most_usec`.
 * Those of others on the device count, too: nobody can tell whose they are. Returns whether more
 * calm is wanted than before. */
bool discard_cooldown_extend(struct discard_cooldown *c, uint64_t now_usec, uint64_t discards,
			     uint64_t discard_usec, uint64_t most_usec);

/* How much of it is left. */
uint64_t discard_cooldown_left_usec(const struct discard_cooldown *c, uint64_t now_usec);
