/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Steps that trim free space: how large, when, and how long to rest after one.
 *
 * A step is discards, and a device serves nothing else meanwhile, or serves it later. So a step is
 * as large as a foreign request may wait for. What it takes for each MiB is between nothing and
 * several milliseconds, and is found by trying. */
#include <assert.h>

#include "controller-state.h"

/* 0.5 ms on an SSD that takes long: less than a sync there. */
#define STEP_FIRST MiB(1)
/* No device discards less in less time. */
#define STEP_LEAST KiB(64)
#define STEP_MOST MiB(1024)

/* With no foreign I/O: a program that starts some waits no longer than so for the step. */
#define FAST_USEC (250 * USEC_PER_MSEC)
#define FAST_FIRST MiB(256)
#define FAST_LEAST MiB(1)
#define FAST_MOST MiB(16384)

/* A step rests so many times what it took, and longer where foreign reads are slower in bursts
 * than in gaps. Nothing waits for a trim: it may take five times as long as it would alone. */
#define RESTS 4
#define REST_MOST USEC_PER_SEC

/* A call that finds nothing to trim takes less, and no foreign request waits for it. */
#define NOTHING_USEC 200

void trim_init(struct controller *c)
{
	c->trim = (struct quantum_size){ STEP_FIRST, STEP_LEAST, STEP_MOST, 0 };
	c->trim_fast = (struct quantum_size){ FAST_FIRST, FAST_LEAST, FAST_MOST, 0 };
}

struct pacing_grant controller_trim_next(const struct controller *c, uint64_t now_usec)
{
	struct pacing_grant g = { now_usec, 0, c->trim_fast.limit };

	if (c->urgent || c->mode == PACING_FAST)
		return g;
	g.bytes = c->trim.limit;
	g.not_before_usec = c->gap || c->mode == PACING_CHECK
				    ? PACING_UNLIMITED
				    : MAX(now_usec, c->trim_not_before_usec);
	return g;
}

static void fast_adjust(struct quantum_size *s, uint64_t bytes, uint64_t cost_usec)
{
	uint64_t fits;

	if (cost_usec > FAST_USEC) {
		/* More than was granted takes longer, whatever is granted. */
		fits = (uint64_t)((double)MIN(bytes, s->limit) * FAST_USEC / (double)cost_usec);
		s->limit = CLAMP(fits, s->least, s->limit);
	} else if (cost_usec < FAST_USEC / 2 && bytes >= s->limit / 2) {
		s->limit = MIN(s->limit * 2, s->most);
	}
}

/* What a step of the size that was granted costs, as far as this one tells. */
static uint64_t cost_of_granted(const struct quantum_size *s, uint64_t bytes, uint64_t cost_usec)
{
	if (bytes <= s->limit)
		return cost_usec;
	return (uint64_t)((double)cost_usec * (double)s->limit / (double)bytes);
}

static void size_adjust(struct controller *c, uint64_t bytes, uint64_t cost_usec)
{
	struct quantum_size *s = &c->trim;
	double usual, target = step_target(c);

	window_add(&c->trim_costs, PACING_COSTS, cost_of_granted(s, bytes, cost_usec));
	if (c->trim_costs.n < PACING_COSTS)
		return;
	usual = (double)window_median(&c->trim_costs);
	if (usual > target)
		s->limit = MAX(s->limit / 2, s->least);
	else if (usual < target / 2 && bytes >= s->limit / 2)
		s->limit = MIN(s->limit * 2, s->most);
	else
		return;
	assert(s->limit >= s->least && s->limit <= s->most);
	c->trim_costs = (struct cost_window){ 0 };
}

/* Where the kernel gave no smaller step, only how often there is one can be chosen: 99 of 100
 * foreign requests are not to meet one (discards_sample). What took long though it was no larger
 * than granted met something else, or teaches the next size. */
static uint64_t excess_rest(struct controller *c, uint64_t bytes, uint64_t cost_usec)
{
	uint64_t target = (uint64_t)step_target(c);

	if (cost_usec <= target || (bytes <= c->trim.limit && c->trim.limit > c->trim.least))
		return 0;
	c->totals.backoffs[BACKOFF_DISCARD]++;
	return MIN((cost_usec - target) * COOLDOWN_FACTOR, COOLDOWN_MOST);
}

void controller_trim_spent(struct controller *c, uint64_t now_usec, uint64_t bytes,
			   uint64_t cost_usec)
{
	double rests = MAX((double)RESTS, (1 - c->share) / c->share);
	uint64_t rest;

	c->outstanding -= c->outstanding > 0;
	if (bytes == 0 && cost_usec < NOTHING_USEC)
		return;
	if (c->urgent || c->mode != PACING_PACED) {
		fast_adjust(&c->trim_fast, bytes, cost_usec);
		return;
	}
	rest = MIN((uint64_t)(rests * (double)cost_usec), REST_MOST);
	rest = MAX(rest, excess_rest(c, bytes, cost_usec));
	c->trim_not_before_usec = now_usec + rest;
	yield_spent(&c->yield, now_usec, LULL_MOST);
	if (bytes > 0)
		size_adjust(c, bytes, cost_usec);
}
