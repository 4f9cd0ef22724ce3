/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "discard-cooldown.h"

#include "base/macros.h"

/* A hundred times would be 1 % of the time; who waits in a queue behind it loses some more. */
#define CALM_TIMES 150
/* The floor of the rate ends it sooner on most disks; without one, nobody waits for ever. */
#define CALM_MOST (120 * USEC_PER_SEC)

bool calm_heed(struct calm *c, uint64_t now_usec, uint64_t discards, uint64_t discard_usec,
	       uint64_t most_usec)
{
	uint64_t usual = discards * most_usec;
	uint64_t begin = MAX(c->until_usec, now_usec);

	if (discard_usec <= usual)
		return false;
	c->until_usec = MIN(begin + (discard_usec - usual) * CALM_TIMES, now_usec + CALM_MOST);
	return true;
}

uint64_t calm_left_usec(const struct calm *c, uint64_t now_usec)
{
	return c->until_usec - MIN(c->until_usec, now_usec);
}
