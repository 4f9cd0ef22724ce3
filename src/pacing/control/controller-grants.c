/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Slices: what may be done next, what it cost, and how long to rest after it. */
#include <assert.h>

#include "controller-state.h"

/* Foreign reads take so long on a disk with a head, which serves one at a time. A few entries are
 * done between two looks at what is in flight: they share a block of inodes. */
#define YIELD_READ 1500.0
#define YIELD_KNOWN 0.2

/* With a ceiling, so much of a second is done at once: neither a burst nor a crawl. */
#define CEILING_SLICES 20

/* Entries of so many bytes are large files. */
#define FILE_LEAST MiB(4)

/* A quantum that is still far from what it may be is measured again so soon. */
#define MEASURE_SOON (400 * USEC_PER_MSEC)

/* Between two requests of one sync, or of a process that reads on, there is less than that. */
#define LULL (2 * USEC_PER_MSEC)
/* A request of a disk with a head takes some milliseconds. */
#define YIELD_POLL 500
/* What was done faster than at the floor earns so much waiting at most. */
#define AHEAD_MOST USEC_PER_SEC

/* While there is foreign I/O, flushes at jobs' ends take one part in so many of the time, so that a
 * process that syncs meets one of them once in a hundred times; but the end of a job waits no
 * longer than this. */
#define FLUSH_TIMES 100
#define FLUSH_MOST USEC_PER_SEC

/* A commit flushes before and after its last block. */
#define OWN_FLUSHES 2.0

uint64_t yield_check(struct yield *y, uint64_t now_usec, uint64_t in_flight)
{
	uint64_t at;

	if (in_flight > 0)
		y->seen_usec = now_usec;
	at = in_flight > 0 ? now_usec + YIELD_POLL : MAX(y->seen_usec + LULL, now_usec);
	return now_usec < y->ahead_usec ? at : now_usec;
}

void yield_spent(struct yield *y, uint64_t now_usec, uint64_t floor_usec)
{
	if (floor_usec == 0)
		y->ahead_usec = now_usec + AHEAD_MOST;
	else
		y->ahead_usec =
			MIN(MAX(y->ahead_usec, now_usec) + floor_usec, now_usec + AHEAD_MOST);
}

/* A slice under a ceiling. */
static uint64_t ceiling_bytes(const struct controller *c)
{
	return MAX(c->o.rate_max / CEILING_SLICES, ENTRY_WORTH);
}

/* What that takes at a rate; 0 without one. */
static double usec_at(uint64_t rate, uint64_t entries, uint64_t bytes)
{
	double worth = (double)MAX(bytes, entries * ENTRY_WORTH);

	return rate ? worth / (double)rate * USEC_PER_SEC : 0;
}

static bool is_unlimited(const struct controller *c)
{
	return c->urgent || (c->mode == PACING_FAST && !c->o.rate_max);
}

uint64_t controller_step(const struct controller *c)
{
	bool owes = !c->o.served || c->not_before_usec > c->last.now_usec;

	if (is_unlimited(c) || (c->mode == PACING_FAST && !owes))
		return UINT64_MAX;
	return c->mode == PACING_FAST ? ceiling_bytes(c) : c->bytes.limit;
}

bool controller_yields(const struct controller *c)
{
	/* What was seen some gaps ago still tells what kind of a disk it is. */
	return c->mode == PACING_PACED && !c->urgent && c->o.observed &&
	       c->in_gap.count >= YIELD_KNOWN && c->in_gap.usec >= YIELD_READ * c->in_gap.count;
}

uint64_t controller_yield_until(struct controller *c, uint64_t now_usec, uint64_t in_flight)
{
	return yield_check(&c->yield, now_usec, in_flight);
}

struct pacing_grant controller_next(struct controller *c, uint64_t now_usec)
{
	unsigned n = piggyback_parts(c, now_usec);
	struct pacing_grant g = { now_usec, PACING_UNLIMITED, PACING_UNLIMITED };

	if (is_unlimited(c))
		return g;
	if (c->mode == PACING_FAST) {
		g.not_before_usec = MAX(now_usec, c->not_before_usec);
		g.bytes = ceiling_bytes(c);
		g.entries = MAX(g.bytes / ENTRY_WORTH, 1ULL);
		return g;
	}
	if (c->gap) {
		g.not_before_usec = PACING_UNLIMITED;
		return g;
	}
	g.not_before_usec = MAX(now_usec, c->not_before_usec);
	g.entries = quantum_left(&c->entries, n);
	if (controller_yields(c))
		g.entries = MIN(g.entries, (uint64_t)PACE_FEW);
	g.bytes = quantum_left(&c->bytes, n);
	return g;
}

bool controller_is_between(const struct controller *c)
{
	return c->entries.used == 0 && c->bytes.used == 0;
}

void controller_begin(struct controller *c)
{
	c->outstanding++;
}

uint64_t cooldown_from(const struct controller *c, uint64_t now)
{
	return c->piggybacked ? MAX(now, c->cooldown_until_usec) : now;
}

uint64_t quantum_cooldown_most(const struct controller *c, uint64_t cost)
{
	double floor = usec_at(c->o.rate_min, c->entries.used, c->bytes.used) - (double)cost;

	return c->o.rate_min ? (uint64_t)MAX(floor, 0) : UINT64_MAX / 2;
}

uint64_t quantum_cooldown(const struct controller *c, uint64_t now, uint64_t cost)
{
	uint64_t until = c->discard_cooldown_until_usec, discard_cooldown = until - MIN(until, now);
	double pause = MAX((double)cost * (1 - c->share) / c->share, (double)discard_cooldown);
	uint64_t ceiling = (uint64_t)usec_at(c->o.rate_max, c->entries.used, c->bytes.used);

	return MAX(MIN((uint64_t)pause, quantum_cooldown_most(c, cost)),
		   ceiling - MIN(cost, ceiling));
}

void quantum_end(struct controller *c)
{
	assert(c->share > 0 && c->share <= 1);
	c->entries.used = c->bytes.used = 0;
	c->work_usec = c->unit_usec = 0;
}

/* A foreign request waits for one of ours, not for a quantum: only how often ours are there can be
 * chosen. */
static void reading_spent(struct controller *c, uint64_t now_usec, uint64_t cost_usec)
{
	c->outstanding -= c->outstanding > 0;
	if (!is_unlimited(c))
		c->not_before_usec =
			now_usec + (uint64_t)((double)cost_usec * (1 - c->share) / c->share);
}

/* What a gap shows must not have part of a quantum in it that was never synced. */
static bool burst_ends(const struct controller *c, uint64_t now)
{
	return controller_yields(c) && !c->gap && now - c->phase_since_usec >= BURST - SAMPLE_EVERY;
}

/* Rests until so much, since then, is no more than the ceiling allows. What was done while it was
 * urgent does not count. */
static void ceiling_charge(struct controller *c, uint64_t since, uint64_t entries, uint64_t bytes)
{
	if (!c->urgent)
		c->not_before_usec = MAX(c->not_before_usec, since) +
				     (uint64_t)usec_at(c->o.rate_max, entries, bytes);
}

static void flush_end(struct controller *c, uint64_t now, uint64_t cost)
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
	/* Foreign I/O that cannot be seen cannot be spared. */
	bool spares = c->mode == PACING_PACED && c->o.observed && !c->urgent;

	return spares ? c->flush_from_usec : 0;
}

bool controller_spent(struct controller *c, uint64_t now_usec, uint64_t entries, uint64_t bytes,
		      uint64_t cost_usec)
{
	bool needs_sync, piggybacking = quantum_piggybacks(c, now_usec);
	unsigned n = piggyback_parts(c, now_usec);

	if (c->o.reads_only) {
		reading_spent(c, now_usec, cost_usec);
		return false;
	}
	/* In a check nothing of ours is to be on its way to the device, and so no sync. */
	if (c->urgent || c->mode != PACING_PACED) {
		c->fast_bytes += bytes;
		c->fast_work = true;
		ceiling_charge(c, now_usec - MIN(cost_usec, now_usec), entries, bytes);
		needs_sync = !c->urgent && c->mode == PACING_FAST && c->o.discards &&
			     c->fast_bytes >= FAST_DISCARD;
		if (!needs_sync)
			c->outstanding -= c->outstanding > 0;
		return c->needs_sync = needs_sync;
	}
	yield_spent(&c->yield, now_usec, (uint64_t)usec_at(c->o.rate_min, entries, bytes));
	c->entries.used += entries;
	c->bytes.used += bytes;
	c->work_usec += cost_usec;
	/* Entries go one by one, and a foreign request waits for one; a step of a file is one. A
	 * slice with neither read a directory, request by request. */
	if (entries > 0)
		c->unit_usec = MAX(c->unit_usec, cost_usec / entries);
	else if (bytes > 0)
		c->unit_usec = MAX(c->unit_usec, cost_usec);
	needs_sync = quantum_is_full(&c->entries, n) || quantum_is_full(&c->bytes, n) || c->gap ||
		     (!piggybacking && burst_ends(c, now_usec));
	/* Where something was only read there is nothing to be synced. */
	needs_sync = needs_sync && !controller_is_between(c);
	if (needs_sync && piggybacking)
		piggyback_quantum_end(c, now_usec);
	needs_sync = needs_sync && !piggybacking;
	if (!needs_sync)
		c->outstanding -= c->outstanding > 0;
	return c->needs_sync = needs_sync;
}

bool controller_fast_spent(struct controller *c, uint64_t entries, uint64_t bytes)
{
	c->fast_bytes += bytes;
	c->fast_work = true;
	if (c->o.served)
		ceiling_charge(c, c->last.now_usec, entries, bytes);
	return c->mode == PACING_FAST && c->o.discards && c->fast_bytes >= FAST_DISCARD;
}

void controller_fast_synced(struct controller *c, uint64_t syncs)
{
	c->fast_bytes = 0;
	c->activity[TRIGGER_FLUSHES] -= OWN_FLUSHES * (double)syncs;
}

void controller_synced(struct controller *c, uint64_t now_usec, uint64_t cost_usec)
{
	uint64_t all = c->work_usec + cost_usec, before;
	bool last = burst_ends(c, now_usec) || (c->piggybacked && canary_is_next(c, now_usec));

	c->outstanding -= c->outstanding > 0;
	c->fast_bytes = 0;
	c->activity[TRIGGER_FLUSHES] -= OWN_FLUSHES;
	/* One that found all committed made no commit. */
	if (cost_usec * 2 >= quiet_sync(c))
		c->piggyback.own++;
	c->synced_usec = now_usec;
	if (last)
		c->not_before_usec =
			MAX(c->not_before_usec, c->phase_since_usec + BURST + SAMPLE_EVERY);
	if (!c->needs_sync) {
		flush_end(c, now_usec, cost_usec);
		return;
	}
	c->needs_sync = false;
	if (controller_is_between(c)) {
		c->piggybacked = false;
		return;
	}
	c->large_files = c->bytes.used >= c->entries.used * FILE_LEAST;
	if (c->cheapest_usec == 0 || cost_usec < c->cheapest_usec)
		c->cheapest_usec = cost_usec;
	histogram_add(&c->totals.quanta, all, 1);
	latency_hour_add(&c->hour, now_usec, LATENCY_SYNCS, /* deleting= */ true,
			 cost_usec + c->unit_usec, 1);
	before = c->bytes.limit;
	quantum_adjust(c, cost_usec + c->unit_usec);
	/* A size that is far from what it may be is measured more often. */
	if (c->piggybacked && c->bytes.limit >= before * 3 / 2)
		c->canary_next_usec = MIN(c->canary_next_usec, now_usec + MEASURE_SOON);
	c->not_before_usec = MAX(last ? c->not_before_usec : 0,
				 cooldown_from(c, now_usec) + quantum_cooldown(c, now_usec, all));
	c->piggybacked = false;
	quantum_end(c);
}
