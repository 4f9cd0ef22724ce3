/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Modes and phases. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "controller-state.h"

#define SAMPLE_GAP_EVERY (4 * USEC_PER_MSEC)

/* Activity fades over so long; so much is worth a check: 10 requests a second, seen soon. */
#define ACTIVITY_FADE (200 * USEC_PER_MSEC)
#define ACTIVITY_ENOUGH 2.0
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

#define CANARY_FIRST (200 * USEC_PER_MSEC)

const char *pacing_mode_name(enum pacing_mode mode)
{
	static const char *const names[] = { "fast", "check", "paced" };

	assert(mode <= PACING_PACED);
	return names[mode];
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

void controller_init(struct controller *c, const struct controller_options *o, uint64_t now_usec)
{
	*c = (struct controller){
		.o = *o,
		.growing = true,
		.not_before_usec = now_usec,
		.canary_next_usec = now_usec,
	};
	quanta_init(c);
	debt_init(c);
	trim_init(c);
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

void controller_discards(struct controller *c)
{
	c->o.discards = true;
	quanta_bound(c);
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
	/* A canary flushes, too. */
	if (!c->canary_in_gap)
		flushes_add(&c->flushes, s, &c->phase_start);
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
	/* Another canary counts from 0. */
	if (!c->has_last || s->canary_count <= c->last.canary_count)
		return;
	if (!c->canary_invalid) {
		window_add(&c->canaries, PACING_CANARIES, s->canary_usec);
		latency_hour_add(&c->hour, s->now_usec, LATENCY_SYNCS, /* deleting= */ false,
				 s->canary_usec, 1);
	}
	histogram_add(&c->totals.syncs, s->canary_usec, 1);
	c->piggyback.own++;
	c->canary_invalid = false;
	c->canary_next_usec = s->now_usec + (c->canaries.n < 3 ? CANARY_FIRST : measure_every(c));
}

static void reads_tally(struct controller *c, const struct pacing_sample *s)
{
	uint64_t reads = s->reads - c->last.reads, mean;
	double foreign = foreign_reads(c, s, &c->last);
	bool alone = c->gap && c->settled;

	if (reads == 0 || s->read_usec < c->last.read_usec)
		return;
	mean = (s->read_usec - c->last.read_usec) / reads;
	histogram_add(&c->totals.reads, mean, reads);
	/* What the device is like without us. */
	if (alone)
		histogram_add(&c->totals.gap_reads, mean, reads);
	/* At full speed all are ours. */
	if (foreign >= 1 && (alone || c->mode == PACING_PACED))
		latency_hour_add(&c->hour, s->now_usec, LATENCY_READS, !alone, mean,
				 MIN(reads, (uint64_t)foreign));
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

void controller_view(const struct controller *c, struct pacing_view *ret)
{
	*ret = (struct pacing_view){
		.urgent = c->urgent,
		.piggyback = piggybacks(c),
		.mode = c->mode,
		.quiet_sync_usec = quiet_sync(c),
		.target_usec = (uint64_t)quantum_target(c),
		.quantum_usec = window_median(&c->costs),
		.read_quiet_usec = (uint64_t)waits_mean(&c->in_gap),
		.read_burst_usec = (uint64_t)waits_mean(&c->in_burst),
		.entries = c->entries.limit,
		.bytes = c->bytes.limit,
		.share = c->share,
	};
}
