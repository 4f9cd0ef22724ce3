/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "discard-cooldown.h"

#include "base/macros.h"

/* A hundred times would be 1 % of the time; who waits in a queue behind it loses some more. */
#define COOLDOWN_FACTOR 150
/* The floor of the rate ends it sooner on most disks; without one, nobody waits for ever. */
#define COOLDOWN_MOST (120 * USEC_PER_SEC)

bool discard_cooldown_extend(struct discard_cooldown *c, uint64_t now_usec, uint64_t discards,
			     uint64_t discard_usec, uint64_t most_usec)
{
	uint64_t usual = discards * most_usec;
	uint64_t begin = MAX(c->until_usec, now_usec);

	if (discard_usec <= usual)
		return false;
	c->until_usec =
		MIN(begin + (discard_usec - usual) * COOLDOWN_FACTOR, now_usec + COOLDOWN_MOST);
	return true;
}

uint64_t discard_cooldown_left_usec(const struct discard_cooldown *c, uint64_t now_usec)
{
	return c->until_usec - MIN(c->until_usec, now_usec);
}
