/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "controller-state.h"
#include "base/macros.h"

/* A piece may exceed a sync with nothing freed by a half: a bystander whose own syncs sometimes
 * meet each other has such delays anyway. And by this much where syncs are so short that a half is
 * noise. */
#define EXCESS_SHARE 0.5
#define EXCESS_LEAST 500.0
/* Not known yet what a sync costs: what it takes on a disk, a seek and a turn. */
#define SYNC_UNKNOWN (10 * USEC_PER_MSEC)

#define CUT_EVERY 4

/* A piece that takes so many times what its sync takes need not be larger: that would only save
 * syncs, of which there are few by then, and what is not yet committed others' syncs pay for. */
#define WORTH_A_SYNC 8

uint64_t quiet_sync(const struct controller *c)
{
	return c->canaries.n > 0 ? window_quartile(&c->canaries) : c->cheapest_usec;
}

double sync_target(const struct controller *c)
{
	double quiet = (double)quiet_sync(c);

	if (c->o.latency_usec)
		return MAX((double)c->o.latency_usec, quiet);
	if (quiet <= 0)
		return SYNC_UNKNOWN;
	return quiet + MAX(quiet * EXCESS_SHARE, EXCESS_LEAST);
}

/* A piece of a large file leaves the head of a disk elsewhere, and its sync pays for the way back
 * whatever it commits: as much as others' reads do. Smaller pieces would only be more of them. */
double quantum_target(const struct controller *c)
{
	bool pays = c->large_files && controller_yields(c) && !c->o.latency_usec;

	return sync_target(c) + (pays ? reads_mean(&c->in_gap) : 0);
}

/* The dimension of which the piece had more is what made it dear, or shows that more may be done.
 */
static struct quantum_size *decisive(struct controller *c)
{
	double e = (double)c->entries.used / (double)c->entries.limit;
	double b = (double)c->bytes.used / (double)c->bytes.limit;

	return e >= b ? &c->entries : &c->bytes;
}

/* Doubles until two pieces in a row were too dear: one may have met somebody. Where each byte is
 * discarded, one is enough to be warned, as the next would cost twice as much. */
static void quantum_grow(struct controller *c, struct quantum_size *s, double cost, double most)
{
	if (cost <= most) {
		c->expensive = 0;
		if (quantum_is_full(s, 1))
			quantum_scale(s, 2);
		return;
	}
	if (++c->expensive < 2 && !c->o.discards)
		return;
	c->growing = false;
	c->totals.backoffs[BACKOFF_QUANTUM]++;
	quantum_scale(s, MAX(most / cost, 0.25));
	c->costs = (struct cost_window){ 0 };
}

void quantum_adjust(struct controller *c, uint64_t cost_usec)
{
	struct quantum_size *s = decisive(c);
	double most = quantum_target(c), usual, worth;

	window_add(&c->costs, PACING_COSTS, cost_usec);
	if (c->growing && c->costs.n < CUT_EVERY) {
		quantum_grow(c, s, (double)cost_usec, most);
		return;
	}
	if (c->costs.n < CUT_EVERY)
		return;
	usual = (double)window_median(&c->costs);
	/* With others' commits there are no syncs to be saved. */
	worth = piggybacks(c) ? 0 : (double)c->work_usec / usual / WORTH_A_SYNC;
	if (usual > most && !c->growing) {
		c->totals.backoffs[BACKOFF_QUANTUM]++;
		quantum_scale(s, MAX(most / usual, 0.5));
		c->costs = (struct cost_window){ 0 };
	} else if (worth > 1) {
		c->growing = false;
		quantum_scale(s, 0.8);
	} else if (c->growing) {
		quantum_grow(c, s, (double)cost_usec, most);
	} else if (usual < most * 0.9 && worth < 0.7 && quantum_is_full(s, 1)) {
		/* Measured seldom, it has to find its way in fewer steps. */
		quantum_scale(s, c->piggybacked ? 1.5 : usual < most * 0.7 ? 1.25 : 1.08);
	}
}
