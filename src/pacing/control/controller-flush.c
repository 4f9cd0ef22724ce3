/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "controller-state.h"
#include "base/macros.h"

/* While somebody is there, flushes at jobs' ends take one part in so many of the time, so that who
 * syncs meets one of them once in a hundred times; but nobody waits longer than this for the end of
 * a job. */
#define FLUSH_TIMES 100
#define FLUSH_MOST USEC_PER_SEC

void flush_end(struct controller *c, uint64_t now, uint64_t cost)
{
	if (c->mode == PACING_PACED && !c->urgent) {
		c->not_before_usec =
			MAX(c->not_before_usec,
			    cooldown_from(c, now) + quantum_cooldown(c, now, c->work_usec + cost));
		c->flush_from_usec = now + MIN(cost * FLUSH_TIMES, FLUSH_MOST);
	}
	c->piggybacked = false;
	quantum_end(c);
}

uint64_t controller_flush_from(const struct controller *c)
{
	/* Where nobody can be seen, nobody is waited for. */
	bool spares = c->mode == PACING_PACED && c->o.observed && !c->urgent;

	return spares ? c->flush_from_usec : 0;
}
