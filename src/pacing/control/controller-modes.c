/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Modes, phases and slices. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "controller-state.h"

/* At full speed a sample is taken so often: two of them see foreign I/O within 50 ms. */
#define SAMPLE_EVERY (20 * USEC_PER_MSEC)
#define SAMPLE_GAP_EVERY (4 * USEC_PER_MSEC)

/* Activity fades over so long; so much is worth a check: 10 requests a second, seen soon. */
#define ACTIVITY_FADE (200 * USEC_PER_MSEC)
#define ACTIVITY_ENOUGH 2.0
#define OWN_FLUSHES 2.0
#define TRIGGER_TIMER_EVERY (5 * USEC_PER_SEC)

/* A check is long enough to see a process with 20 requests a second; one in vain is followed by so
 * many times its length without another for the same reason: under 3 % of the time. */
#define CHECK_LENGTH (50 * USEC_PER_MSEC)
#define CHECK_SPARSE 40
/* What is on its way to the device when we stop is waited for, but not forever. */
#define SETTLE_CHECK (200 * USEC_PER_MSEC)
#define SETTLE_GAP (12 * USEC_PER_MSEC)
#define SETTLE_LEAST (2 * USEC_PER_MSEC)

/* After so many gaps without a request one long gap decides: full speed well within a second. */
#define IDLE_GAPS 2
#define GAP_LONG (150 * USEC_PER_MSEC)

/* A quantum that is still far from what it may be is measured again so soon. */
#define MEASURE_SOON (400 * USEC_PER_MSEC)
#define CANARY_FIRST (200 * USEC_PER_MSEC)

/* Quanta: from what was measured as unnoticeable on a disk that discards slowly, up to what one
 * call frees at most. */
#define BYTES_FIRST MiB(8)
#define BYTES_FIRST_DISCARD MiB(2)
#define BYTES_LEAST MiB(1)
#define BYTES_MOST (MiB(1024) * 16)
#define ENTRIES_FIRST 64
#define ENTRIES_LEAST 16
#define ENTRIES_MOST 16384
/* So many bytes of discards at full speed are 16 ms on a disk that takes 0.5 ms for each MiB and
 * does eight at a time, and a sync for them costs less than 1 % of the time. */
#define FAST_DISCARD MiB(256)

#define ENTRY_WORTH KiB(4)
/* Entries of so many bytes are large files. */
#define FILE_LEAST MiB(4)

/* Foreign reads take so long on a disk with a head, which serves one at a time. A few entries are
 * done between two looks at what is in flight: they share a block of inodes. */
#define YIELD_READ 1500.0
#define YIELD_KNOWN 0.2

/* With a ceiling, so much of a second is done at once: neither a burst nor a crawl. */
#define CEILING_SLICES 20

/* The cooldown is so many times as long as a discard took too long. A hundred times would be 1 % of
 * the time; requests that wait in a queue behind it lose some more. */
#define COOLDOWN_FACTOR 150
/* The floor of the rate ends it sooner on most disks; without one, this does. */
#define COOLDOWN_MOST (120 * USEC_PER_SEC)

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

const char *pacing_mode_name(enum pacing_mode mode)
{
	static const char *const names[] = { "fast", "check", "paced" };

	assert(mode <= PACING_PACED);
	return names[mode];
}

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

static void mode_enter(struct controller *c, enum pacing_mode mode, uint64_t now)
{
	c->totals.backoffs[BACKOFF_FOREIGN_IO] += mode == PACING_PACED && c->o.observed;
	c->mode = mode;
	c->mode_since_usec = now;
	c->phase_since_usec = now;
	c->settled = false;
	/* Being paced begins with a gap, so that there is something to compare with. */
	c->gap = mode != PACING_FAST && c->o.observed;
	c->canary_in_gap = false;
	c->gap_active = false;
	c->idle_gaps = 0;
	if (mode != PACING_FAST)
		return;
	memset(c->activity, 0, sizeof(c->activity));
	c->fast_bytes = 0;
}

/* Under a ceiling a quantum is no more than a second of it: after a large one it would rest for as
 * long as that. */
static void quanta_bound(struct controller *c)
{
	uint64_t bytes = c->o.discards ? FAST_DISCARD : BYTES_MOST, second = c->o.rate_max;

	quantum_bound(&c->bytes, second ? MIN(bytes, second) : bytes);
	quantum_bound(&c->entries, second ? MIN(ENTRIES_MOST, second / ENTRY_WORTH) : ENTRIES_MOST);
}

void controller_init(struct controller *c, const struct controller_options *o, uint64_t now_usec)
{
	*c = (struct controller){
		.o = *o,
		.entries = { ENTRIES_FIRST, ENTRIES_LEAST, ENTRIES_MOST, 0 },
		.bytes = { BYTES_FIRST, BYTES_LEAST, BYTES_MOST, 0 },
		.growing = true,
		.not_before_usec = now_usec,
		.canary_next_usec = now_usec,
	};
	if (o->discards)
		c->bytes.limit = BYTES_FIRST_DISCARD;
	quanta_bound(c);
	c->suppressed_until_usec[TRIGGER_TIMER] = now_usec + TRIGGER_TIMER_EVERY;
	c->read_size = 8;
	c->share = share_first(c);
	if (o->ignore_foreign)
		mode_enter(c, PACING_FAST, now_usec);
	else if (!o->observed)
		mode_enter(c, PACING_PACED, now_usec);
	else
		mode_enter(c, o->presumed_busy ? PACING_CHECK : PACING_FAST, now_usec);
}

void controller_urgent(struct controller *c, bool on)
{
	c->urgent = on;
}

void controller_limits(struct controller *c, uint64_t latency_usec, uint64_t rate_min,
		       uint64_t rate_max)
{
	c->o.latency_usec = latency_usec;
	c->o.rate_min = rate_min;
	c->o.rate_max = rate_max;
	quanta_bound(c);
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

/* Keeps how large reads are: a page at least. */
static void read_size(struct controller *c, const struct pacing_sample *s)
{
	double reads = (double)(s->reads - c->last.reads);
	double sectors = (double)(s->read_sectors - c->last.read_sectors);

	if (reads >= 1)
		c->read_size = MAX(c->read_size * 0.8 + sectors / reads * 0.2, 8);
}

/* A sample from before a suspend, or of other devices, continues nothing. */
static bool continues(const struct controller *c, const struct pacing_sample *s)
{
	return c->has_last && s->now_usec > c->last.now_usec &&
	       s->now_usec - c->last.now_usec < 2 * USEC_PER_SEC && s->reads >= c->last.reads &&
	       s->requests >= c->last.requests && s->read_sectors >= c->last.read_sectors &&
	       s->flushes >= c->last.flushes && s->commits >= c->last.commits &&
	       s->own_sectors >= c->last.own_sectors;
}

static void activity_sample(struct controller *c, const struct pacing_sample *s)
{
	double keep = exp(-(double)(s->now_usec - c->last.now_usec) / ACTIVITY_FADE);

	read_size(c, s);
	c->activity[TRIGGER_READS] =
		c->activity[TRIGGER_READS] * keep + foreign_reads(c, s, &c->last);
	c->activity[TRIGGER_FLUSHES] =
		c->activity[TRIGGER_FLUSHES] * keep + (double)(s->flushes - c->last.flushes);
	c->activity[TRIGGER_TIMER] = ACTIVITY_ENOUGH;
	if (s->commits > c->last.commits)
		piggyback_foreign_commit(c, s->now_usec);
	piggyback_sample(&c->piggyback, s->commits - c->last.commits,
			 s->now_usec - c->last.now_usec);
}

/* How much one discard covers is not ours to choose: ext4 trims, with what was freed, all of the
 * free space behind it up to the next block in use, which can be most of a block group (128 MiB:
 * 60 ms where a disk takes 0.5 ms for each MiB), however small the quantum was. No request is
 * served in that time. What is ours is how often that happens: a cooldown follows, so long that 99
 * of 100 foreign requests do not meet one. Discards of other processes count, too: the device does
 * not tell whose they are. At full speed no foreign request waits. */
static void discards_sample(struct controller *c, const struct pacing_sample *s)
{
	uint64_t now = s->now_usec, took, usual;

	if (!c->o.discards || c->mode == PACING_FAST || s->discards <= c->last.discards ||
	    s->discard_usec < c->last.discard_usec)
		return;
	took = s->discard_usec - c->last.discard_usec;
	usual = (s->discards - c->last.discards) * (uint64_t)sync_target(c);
	if (took <= usual)
		return;
	c->discard_cooldown_until_usec =
		MIN(MAX(c->discard_cooldown_until_usec, now) + (took - usual) * COOLDOWN_FACTOR,
		    now + COOLDOWN_MOST);
	c->totals.backoffs[BACKOFF_DISCARD]++;
}

static void fast(struct controller *c, const struct pacing_sample *s)
{
	for (int i = 0; i < CHECK_TRIGGERS; i++) {
		if (c->activity[i] < ACTIVITY_ENOUGH || s->now_usec < c->suppressed_until_usec[i])
			continue;
		c->trigger = (enum check_trigger)i;
		mode_enter(c, PACING_CHECK, s->now_usec);
		return;
	}
}

/* True once no request of ours is left, so that what a gap shows is foreign. */
static bool settle(struct controller *c, const struct pacing_sample *s, uint64_t most)
{
	uint64_t waited = s->now_usec - c->phase_since_usec;

	if (c->settled)
		return true;
	if (c->outstanding + s->peers_outstanding > 0) {
		c->phase_since_usec = s->now_usec;
		return false;
	}
	if (waited < SETTLE_LEAST || (s->in_flight > 0 && waited < most))
		return false;
	c->settled = true;
	c->settled_usec = s->now_usec;
	c->phase_start = *s;
	return false;
}

static bool foreign_request(const struct controller *c, const struct pacing_sample *s)
{
	/* What is in flight may be a discard, and then it is ours. */
	return s->requests > c->phase_start.requests || (s->in_flight > 0 && !c->o.discards);
}

static void check(struct controller *c, const struct pacing_sample *s)
{
	uint64_t length;

	if (!settle(c, s, SETTLE_CHECK))
		return;
	if (foreign_request(c, s)) {
		mode_enter(c, PACING_PACED, s->now_usec);
		/* The next sync pays for what was done at full speed. */
		c->canary_invalid = c->fast_work;
		c->fast_work = false;
		return;
	}
	if (s->now_usec - c->settled_usec < CHECK_LENGTH)
		return;
	length = s->now_usec - c->mode_since_usec;
	c->suppressed_until_usec[c->trigger] = s->now_usec + length * CHECK_SPARSE;
	if (c->trigger == TRIGGER_TIMER)
		c->suppressed_until_usec[c->trigger] = s->now_usec + TRIGGER_TIMER_EVERY;
	mode_enter(c, PACING_FAST, s->now_usec);
}

static void phase_enter(struct controller *c, bool gap, const struct pacing_sample *s)
{
	assert(c->mode == PACING_PACED);
	c->gap = gap;
	c->settled = false;
	c->phase_since_usec = s->now_usec;
	c->phase_start = *s;
	c->canary_in_gap = false;
	c->gap_active = false;
}

static void gap_end(struct controller *c, const struct pacing_sample *s)
{
	reads_add(c, &c->in_gap, s, &c->phase_start);
	share_adjust(c, s->now_usec);
	c->idle_gaps = c->gap_active ? 0 : c->idle_gaps + 1;
	if (c->idle_gaps > IDLE_GAPS && c->o.observed)
		mode_enter(c, PACING_FAST, s->now_usec);
	else
		phase_enter(c, /* gap= */ false, s);
}

static uint64_t gap_length(const struct controller *c)
{
	return c->idle_gaps >= IDLE_GAPS ? GAP_LONG : GAP;
}

static void paced(struct controller *c, const struct pacing_sample *s)
{
	if (!c->gap) {
		if (c->activity[TRIGGER_READS] >= ACTIVITY_ENOUGH)
			c->idle_gaps = 0;
		if (s->now_usec - c->phase_since_usec < BURST || !c->o.observed)
			return;
		reads_add(c, &c->in_burst, s, &c->phase_start);
		phase_enter(c, /* gap= */ true, s);
		return;
	}
	if (!settle(c, s, SETTLE_GAP))
		return;
	/* A canary's requests are ours. */
	c->gap_active |= !c->canary_in_gap && foreign_request(c, s);
	/* The long gap ends with the first foreign request. */
	if (c->idle_gaps >= IDLE_GAPS && c->gap_active) {
		gap_end(c, s);
		return;
	}
	/* A canary is waited for, so that it meets nothing of ours. */
	if (s->now_usec - c->settled_usec >= gap_length(c) && !s->canary_busy)
		gap_end(c, s);
}

static void canary_take(struct controller *c, const struct pacing_sample *s)
{
	if (!c->has_last || s->canary_count == c->last.canary_count)
		return;
	if (!c->canary_invalid)
		window_add(&c->canaries, PACING_CANARIES, s->canary_usec);
	histogram_add(&c->totals.syncs, s->canary_usec, 1);
	c->piggyback.own++;
	c->canary_invalid = false;
	c->canary_next_usec = s->now_usec + (c->canaries.n < 3 ? CANARY_FIRST : measure_every(c));
}

static void reads_tally(struct controller *c, const struct pacing_sample *s)
{
	uint64_t reads = s->reads - c->last.reads;

	if (reads > 0 && s->read_usec >= c->last.read_usec)
		histogram_add(&c->totals.reads, (s->read_usec - c->last.read_usec) / reads, reads);
}

uint64_t controller_sample(struct controller *c, const struct pacing_sample *s)
{
	if (!continues(c, s)) {
		c->last = *s;
		c->has_last = true;
		c->phase_start = *s;
		c->phase_since_usec = s->now_usec;
		c->settled = false;
		return s->now_usec + SAMPLE_GAP_EVERY;
	}
	canary_take(c, s);
	reads_tally(c, s);
	activity_sample(c, s);
	discards_sample(c, s);
	switch (c->mode) {
	case PACING_FAST:
		if (c->o.observed && !c->o.ignore_foreign)
			fast(c, s);
		break;
	case PACING_CHECK:
		check(c, s);
		break;
	case PACING_PACED:
		paced(c, s);
		break;
	}
	c->last = *s;
	return s->now_usec + (c->mode == PACING_FAST || !c->gap ? SAMPLE_EVERY : SAMPLE_GAP_EVERY);
}

bool controller_wants_canary(struct controller *c)
{
	if (c->mode != PACING_PACED || c->last.canary_busy || c->canary_in_gap ||
	    c->last.now_usec < c->canary_next_usec)
		return false;
	/* Without counters there are no gaps. */
	if (!c->o.observed)
		return true;
	/* Foreign requests are looked for before the canary adds its own. And it must not pay for
	 * what waits for foreign commits. */
	c->canary_in_gap = c->gap && c->settled && !c->piggybacked &&
			   c->last.now_usec - c->settled_usec >= GAP / 2;
	return c->canary_in_gap;
}

void controller_no_canary(struct controller *c)
{
	c->canaries = (struct cost_window){ 0 };
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
		g.entries = MAX(g.bytes / ENTRY_WORTH, 1);
		return g;
	}
	if (c->gap) {
		g.not_before_usec = PACING_UNLIMITED;
		return g;
	}
	g.not_before_usec = MAX(now_usec, c->not_before_usec);
	g.entries = quantum_left(&c->entries, n);
	if (controller_yields(c))
		g.entries = MIN(g.entries, PACE_FEW);
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
	/* A commit flushes before and after its last block. */
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

void controller_view(const struct controller *c, struct pacing_view *ret)
{
	*ret = (struct pacing_view){
		.urgent = c->urgent,
		.piggyback = piggybacks(c),
		.mode = c->mode,
		.quiet_sync_usec = quiet_sync(c),
		.target_usec = (uint64_t)quantum_target(c),
		.quantum_usec = window_median(&c->costs),
		.read_quiet_usec = (uint64_t)reads_mean(&c->in_gap),
		.read_burst_usec = (uint64_t)reads_mean(&c->in_burst),
		.entries = c->entries.limit,
		.bytes = c->bytes.limit,
		.share = c->share,
	};
}
