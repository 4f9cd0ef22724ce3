/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The controller against an invented device: others who read and sync, a sync that costs, pieces
 * that cost more the larger they are, reads that suffer while pieces are at work or do not. */
#include "pacing/controller.h"
#include "support.h"
#include "util/macros.h"

#define MSEC USEC_PER_MSEC
#define STEP 100ULL /* resolution of the simulation */
#define WORK 200ULL /* what the calls of a slice take */

struct device {
	uint64_t sync_usec;       /* with nothing freed */
	double byte_usec;         /* added by each byte of a piece */
	double entry_usec;        /* and by each entry */
	uint64_t read_usec;       /* others' reads, at rest */
	double suffer;            /* how much longer they take while a piece is at work */
	uint64_t reads_per_sec;   /* of others; 0: nobody is there */
	uint64_t own_sectors;     /* read by each slice of work */
	uint64_t commits_per_sec; /* of others */
};

struct world {
	struct device d;
	struct controller c;
	struct pacing_sample s;
	uint64_t now, sample_at, busy_until, sync_from, read_at, commit_at, canary_until;
	uint64_t slice_entries, slice_bytes;
	bool working, syncing, by_entries;
	uint64_t bytes, entries; /* done */
	uint64_t waited_usec;    /* in fast mode's checks and all other pauses */
	uint64_t fast_usec, syncs;
};

static void world_init(struct world *w, const struct controller_options *o, struct device d)
{
	*w = (struct world){ .d = d, .now = 1000 * MSEC };
	w->sample_at = w->read_at = w->commit_at = w->now;
	w->s.now_usec = w->now;
	controller_init(&w->c, o, w->now);
}

static void others(struct world *w)
{
	for (; w->d.commits_per_sec > 0 && w->commit_at <= w->now;
	     w->commit_at += USEC_PER_SEC / w->d.commits_per_sec) {
		w->s.commits++;
		w->s.flushes++;
		w->s.requests += 2;
	}
	if (w->d.reads_per_sec == 0)
		return;
	while (w->read_at <= w->now) {
		bool hurt = w->working || w->syncing;

		w->s.reads++;
		w->s.requests++;
		w->s.read_sectors += 8;
		w->s.read_usec += (uint64_t)((double)w->d.read_usec * (hurt ? 1 + w->d.suffer : 1));
		w->read_at += USEC_PER_SEC / w->d.reads_per_sec;
	}
}

static void look(struct world *w)
{
	if (w->s.canary_busy && w->now >= w->canary_until) {
		w->s.canary_busy = false;
		w->s.canary_count++;
		w->s.canary_usec = w->d.sync_usec;
		w->s.requests += 3;
	}
	if (w->now < w->sample_at)
		return;
	w->s.now_usec = w->now;
	w->sample_at = controller_sample(&w->c, &w->s);
	if (controller_wants_canary(&w->c)) {
		w->s.canary_busy = true;
		w->canary_until = w->now + w->d.sync_usec;
	}
}

/* One lane: slices of up to 100 entries, or of 64 MiB of a file. */
static void lane(struct world *w)
{
	struct pacing_grant g;

	if (w->now < w->busy_until)
		return;
	if (w->syncing) {
		w->syncing = false;
		w->s.requests += 2;
		w->s.flushes++;
		w->s.commits++;
		w->syncs++;
		controller_synced(&w->c, w->now, w->now - w->sync_from);
	}
	if (w->working) {
		w->working = false;
		w->entries += w->slice_entries;
		w->bytes += w->slice_bytes;
		if (controller_spent(&w->c, w->now, w->slice_entries, w->slice_bytes, WORK)) {
			w->syncing = true;
			w->sync_from = w->now;
			w->busy_until = w->now + w->d.sync_usec +
					(uint64_t)(w->d.byte_usec * (double)w->c.bytes.used +
						   w->d.entry_usec * (double)w->c.entries.used);
			return;
		}
	}
	g = controller_next(&w->c, w->now);
	if (g.not_before_usec > w->now) {
		w->waited_usec += STEP;
		return;
	}
	w->slice_entries = w->by_entries ? MIN(g.entries, 100ULL) : 0;
	w->slice_bytes = w->by_entries ? w->slice_entries * KiB(8) : MIN(g.bytes, MiB(64));
	w->working = true;
	w->busy_until = w->now + WORK;
	w->s.own_sectors += w->d.own_sectors;
	w->s.read_sectors += w->d.own_sectors;
	w->s.reads += w->d.own_sectors / 8;
	w->s.requests += w->d.own_sectors / 8;
	controller_begin(&w->c);
}

static void pass(struct world *w, uint64_t usec)
{
	for (uint64_t end = w->now + usec; w->now < end; w->now += STEP) {
		others(w);
		look(w);
		lane(w);
		w->fast_usec += w->c.mode == PACING_FAST ? STEP : 0;
	}
}

static const struct controller_options automatic = { .rate_min = MiB(8), .observed = true };
static const struct controller_options cautious = { .rate_min = MiB(8),
						    .observed = true,
						    .presumed_busy = true };

/* A solid disk: 1 ms for a sync, and half a millisecond for each MiB that is discarded. */
static const struct device solid = {
	.sync_usec = 1 * MSEC, .byte_usec = 0.5 * MSEC / MiB(8), .entry_usec = 2, .read_usec = 400
};

static struct device with_reads(struct device d, uint64_t per_sec)
{
	d.reads_per_sec = per_sec;
	return d;
}

START_TEST(alone_it_is_fast)
{
	struct world w;

	world_init(&w, &automatic, solid);
	pass(&w, 20 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_FAST);
	ck_assert_uint_le(w.waited_usec, 20 * USEC_PER_SEC / 25);
}
END_TEST

START_TEST(own_reads_are_nobody)
{
	struct device d = solid;
	struct world w;

	d.own_sectors = 16;
	world_init(&w, &automatic, d);
	pass(&w, 20 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_FAST);
	/* No more than the look that is taken now and then whatever is heard. */
	ck_assert_uint_le(w.waited_usec, 20 * USEC_PER_SEC / 60);
}
END_TEST

START_TEST(presumed_company_that_is_not_there)
{
	struct world w;

	world_init(&w, &cautious, solid);
	ck_assert_int_eq(w.c.mode, PACING_CHECK);
	pass(&w, 100 * MSEC);
	ck_assert_int_eq(w.c.mode, PACING_FAST);
}
END_TEST

START_TEST(presumed_company_that_is_there)
{
	struct world w;

	world_init(&w, &cautious, with_reads(solid, 30));
	pass(&w, 100 * MSEC);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	pass(&w, 5 * USEC_PER_SEC);
	ck_assert_uint_eq(w.fast_usec, 0);
}
END_TEST

START_TEST(somebody_comes_and_goes)
{
	struct world w;

	world_init(&w, &automatic, solid);
	pass(&w, 3 * USEC_PER_SEC);
	w.d.reads_per_sec = 30;
	w.read_at = w.now;
	pass(&w, 200 * MSEC);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	w.fast_usec = 0;
	pass(&w, 20 * USEC_PER_SEC);
	ck_assert_uint_eq(w.fast_usec, 0);
	w.d.reads_per_sec = 0;
	pass(&w, 1 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_FAST);
}
END_TEST

/* Without small pieces a bystander's sync would wait for all that a batch frees. */
START_TEST(pieces_cost_what_they_may)
{
	struct device d = with_reads(solid, 90);
	struct pacing_view v;
	struct world w;
	uint64_t freed;

	d.byte_usec *= 4;
	world_init(&w, &cautious, d);
	pass(&w, 5 * USEC_PER_SEC);
	freed = w.bytes;
	pass(&w, 5 * USEC_PER_SEC);
	/* 1.3 ms for a piece: the sync's 1 ms and 0.3 ms of its own. */
	controller_view(&w.c, &v);
	ck_assert_uint_le(v.piece_usec, 1700);
	ck_assert_uint_le(v.bytes, MiB(3));
	/* And it is no crawl. */
	ck_assert_uint_ge(w.bytes - freed, (uint64_t)MiB(1) * 1000);
}
END_TEST

/* Where the size of a piece costs nothing, it grows until the file is gone in a few. */
START_TEST(what_costs_nothing_grows)
{
	struct device d = with_reads(solid, 90);
	struct world w;

	d.byte_usec = 0;
	world_init(&w, &cautious, d);
	pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_ge(w.c.bytes.limit, MiB(512));
}
END_TEST

START_TEST(entries_are_bounded_on_their_own)
{
	struct device d = with_reads(solid, 90);
	struct world w;

	d.entry_usec = 20;
	world_init(&w, &cautious, d);
	w.by_entries = true;
	pass(&w, 5 * USEC_PER_SEC);
	ck_assert_uint_le(w.c.entries.limit, 64);
	ck_assert_uint_ge(w.c.bytes.limit, MiB(8));
}
END_TEST

/* Others' reads are slower while we work: it is us, and we do less. */
START_TEST(slower_in_bursts_is_ours)
{
	struct device d = with_reads(solid, 300);
	struct world w;

	d.suffer = 2;
	world_init(&w, &cautious, d);
	pass(&w, 20 * USEC_PER_SEC);
	ck_assert_double_lt(w.c.share, 0.35);
}
END_TEST

/* They are slower whether we work or not: it is not us. */
START_TEST(slower_in_gaps_too_is_not_ours)
{
	struct world w;
	double before;

	world_init(&w, &cautious, with_reads(solid, 300));
	pass(&w, 10 * USEC_PER_SEC);
	before = w.c.share;
	w.d.read_usec *= 5;
	pass(&w, 10 * USEC_PER_SEC);
	ck_assert_double_ge(w.c.share, before);
	ck_assert_double_ge(w.c.share, 0.8);
}
END_TEST

/* The device itself becomes slow: its syncs take longer, so pieces may. */
START_TEST(device_that_slows_down)
{
	struct world w;
	uint64_t before;

	world_init(&w, &cautious, with_reads(solid, 90));
	pass(&w, 10 * USEC_PER_SEC);
	before = w.c.bytes.limit;
	w.d.sync_usec *= 10;
	pass(&w, 20 * USEC_PER_SEC);
	ck_assert_uint_ge(w.c.bytes.limit, before);
}
END_TEST

START_TEST(never_slower_than_the_floor)
{
	struct controller_options o = cautious;
	struct device d = with_reads(solid, 300);
	struct world w;

	o.rate_min = MiB(16);
	d.suffer = 50;
	d.byte_usec = 20.0 * MSEC / MiB(1);
	world_init(&w, &o, d);
	pass(&w, 5 * USEC_PER_SEC);
	w.bytes = 0;
	pass(&w, 10 * USEC_PER_SEC);
	/* Gaps are kept: a fifth of the time. */
	ck_assert_uint_ge(w.bytes, (uint64_t)MiB(16) * 10 * 7 / 10);
}
END_TEST

START_TEST(never_faster_than_the_ceiling)
{
	struct controller_options o = cautious;
	struct world w;

	o.rate_max = MiB(64);
	world_init(&w, &o, solid);
	pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_le(w.bytes, (uint64_t)MiB(64) * 10 * 21 / 20);
	ck_assert_uint_ge(w.bytes, (uint64_t)MiB(64) * 10 * 8 / 10);
	/* The same with somebody there, who bears more than that. */
	world_init(&w, &o, with_reads(solid, 300));
	pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_le(w.bytes, (uint64_t)MiB(64) * 10 * 21 / 20);
}
END_TEST

START_TEST(a_named_bound_is_kept)
{
	struct controller_options o = cautious;
	struct pacing_view v;
	struct world w;

	o.latency_usec = 5 * MSEC;
	world_init(&w, &o, with_reads(solid, 90));
	pass(&w, 10 * USEC_PER_SEC);
	controller_view(&w.c, &v);
	ck_assert_uint_ge(v.piece_usec, 3 * MSEC);
	ck_assert_uint_le(v.piece_usec, 5500);
}
END_TEST

/* Counters that stand still, or are not there, hold nothing up. */
START_TEST(without_counters_it_goes_on)
{
	struct controller_options o = { .rate_min = MiB(8) };
	struct world w;

	world_init(&w, &o, solid);
	pass(&w, 10 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	ck_assert_uint_ge(w.bytes, (uint64_t)MiB(8) * 100);
}
END_TEST

START_TEST(time_that_jumps)
{
	struct pacing_view v;
	struct world w;
	uint64_t bytes;

	world_init(&w, &cautious, with_reads(solid, 90));
	pass(&w, 3 * USEC_PER_SEC);
	w.now += 600 * USEC_PER_SEC; /* suspended, or stopped */
	w.read_at = w.now;
	pass(&w, 1 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	bytes = w.bytes;
	/* The device was replaced: counters begin anew. */
	w.s.reads = w.s.requests = w.s.read_sectors = w.s.flushes = w.s.read_usec = 0;
	pass(&w, 1 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	ck_assert_uint_gt(w.bytes, bytes);
	controller_view(&w.c, &v);
	ck_assert_uint_le(v.read_burst_usec, 500);
	ck_assert_uint_le(v.read_quiet_usec, 500);
	ck_assert_double_lt(w.c.in_burst.count, 1000);
}
END_TEST

START_TEST(urgent_knows_no_limits)
{
	struct world w;

	world_init(&w, &cautious, with_reads(solid, 90));
	controller_urgent(&w.c, true);
	ck_assert_uint_eq(controller_next(&w.c, w.now).bytes, PACING_UNLIMITED);
	pass(&w, 2 * USEC_PER_SEC);
	ck_assert_uint_eq(w.waited_usec, 0);
	controller_urgent(&w.c, false);
	pass(&w, 1 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	ck_assert_uint_gt(w.waited_usec, 0);
}
END_TEST

START_TEST(discards_are_not_piled_up)
{
	struct controller_options o = automatic;
	struct world w;

	o.discards = true;
	world_init(&w, &o, solid);
	pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_ge(w.s.flushes, w.bytes / MiB(256) - 2);
	ck_assert_uint_ge(w.bytes, (uint64_t)MiB(256) * 10);
}
END_TEST

/* Half of what a sync costs is others', and they commit often. */
static struct device with_commits(uint64_t per_sec)
{
	struct device d = with_reads(solid, 90);

	d.byte_usec *= 4;
	d.commits_per_sec = per_sec;
	return d;
}

static void begin_anew(struct world *w)
{
	w->bytes = w->syncs = 0;
}

START_TEST(others_commits_take_along)
{
	struct pacing_grant g;
	struct world w, own;

	world_init(&own, &cautious, with_commits(0));
	world_init(&w, &cautious, with_commits(100));
	pass(&own, 5 * USEC_PER_SEC);
	pass(&w, 5 * USEC_PER_SEC);
	begin_anew(&own);
	begin_anew(&w);
	pass(&own, 10 * USEC_PER_SEC);
	pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_ge(own.syncs, 500);
	/* To measure only, and measured well: pieces are as large as they would be. */
	ck_assert_uint_le(w.syncs, 11);
	ck_assert_uint_ge(w.syncs, 8);
	ck_assert_uint_ge(w.c.bytes.limit * 10, own.c.bytes.limit * 8);
	ck_assert_uint_le(w.c.bytes.limit * 8, own.c.bytes.limit * 10);
	/* A part with each, and not more often than they come. */
	for (uint64_t i = 0; i < 1000; i++) {
		pass(&w, STEP);
		g = controller_next(&w.c, w.now);
		if (g.not_before_usec <= w.now)
			ck_assert_uint_le(g.bytes, w.c.bytes.limit / 4);
	}
	ck_assert_uint_le(w.bytes, w.c.bytes.limit / 4 * 100 * 11);
	ck_assert_uint_ge(w.bytes, w.c.bytes.limit / 4 * 50 * 10);
}
END_TEST

/* What nobody takes along does not pile up. */
START_TEST(others_commits_stop)
{
	struct world w;

	world_init(&w, &cautious, with_commits(100));
	pass(&w, 5 * USEC_PER_SEC);
	w.d.commits_per_sec = 0;
	pass(&w, 500 * MSEC);
	begin_anew(&w);
	pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_ge(w.syncs, 50);
	/* And are too few to wait for. */
	w.d.commits_per_sec = 10;
	w.commit_at = w.now;
	begin_anew(&w);
	pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_ge(w.syncs, 50);
}
END_TEST

START_TEST(discards_are_not_left_to_others)
{
	struct controller_options o = cautious;
	struct world w;

	o.discards = true;
	world_init(&w, &o, with_commits(100));
	pass(&w, 5 * USEC_PER_SEC);
	begin_anew(&w);
	pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_ge(w.syncs, 50);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { alone_it_is_fast,
				 own_reads_are_nobody,
				 presumed_company_that_is_not_there,
				 presumed_company_that_is_there,
				 somebody_comes_and_goes,
				 pieces_cost_what_they_may,
				 what_costs_nothing_grows,
				 entries_are_bounded_on_their_own,
				 slower_in_bursts_is_ours,
				 slower_in_gaps_too_is_not_ours,
				 device_that_slows_down,
				 never_slower_than_the_floor,
				 never_faster_than_the_ceiling,
				 a_named_bound_is_kept,
				 without_counters_it_goes_on,
				 time_that_jumps,
				 urgent_knows_no_limits,
				 discards_are_not_piled_up,
				 others_commits_take_along,
				 others_commits_stop,
				 discards_are_not_left_to_others };

	return run_case("controller", tests, ELEMENTSOF(tests));
}
