/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Steps that pay the debt: how large, when, and how long to rest after one. */
#include <assert.h>

#include "controller-state.h"

/* On a hard disk as much as one seek brings along; small enough for the first step anywhere. */
#define STEP_FIRST KiB(64)
#define STEP_LEAST KiB(4)
#define STEP_MOST MiB(1)
/* With no foreign I/O. */
#define STEP_FAST MiB(4)

/* A step rests so many times what it took: steps are then at work for a third of the time. Measured
 * on a simulated hard disk; see docs/benchmarks.md. */
#define RESTS 2
#define REST_MOST USEC_PER_SEC

void debt_init(struct controller *c)
{
	c->debt = (struct quantum_size){ STEP_FIRST, STEP_LEAST, STEP_MOST, 0 };
}

double step_target(const struct controller *c)
{
	double quiet = (double)quiet_sync(c);

	return MAX(sync_target(c) - quiet, quiet / 4);
}

uint64_t controller_debt_target(const struct controller *c)
{
	return quiet_sync(c) > 0 ? (uint64_t)step_target(c) : 0;
}

struct pacing_grant controller_debt_next(const struct controller *c, uint64_t now_usec)
{
	struct pacing_grant g = { now_usec, 0, STEP_FAST };

	if (c->urgent || c->mode == PACING_FAST)
		return g;
	g.bytes = c->debt.limit;
	g.not_before_usec = c->gap || c->mode == PACING_CHECK
				    ? PACING_UNLIMITED
				    : MAX(now_usec, c->debt_not_before_usec);
	return g;
}

void controller_debt_spent(struct controller *c, uint64_t now_usec, uint64_t bytes,
			   uint64_t cost_usec)
{
	struct quantum_size *s = &c->debt;
	double usual;

	c->outstanding -= c->outstanding > 0;
	if (bytes == 0 || c->urgent || c->mode != PACING_PACED)
		return;
	c->debt_not_before_usec = now_usec + MIN(RESTS * cost_usec, REST_MOST);
	yield_spent(&c->yield, now_usec, LULL_MOST);
	window_add(&c->debt_costs, PACING_COSTS, cost_usec);
	if (c->debt_costs.n < PACING_COSTS)
		return;
	usual = (double)window_median(&c->debt_costs);
	if (usual > step_target(c))
		s->limit = MAX(s->limit / 2, s->least);
	else if (usual < step_target(c) / 2 && bytes >= s->limit / 2)
		s->limit = MIN(s->limit * 2, s->most);
	else
		return;
	assert(s->limit >= s->least && s->limit <= s->most);
	c->debt_costs = (struct cost_window){ 0 };
}
