/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The controller against an invented device (world.h). */
#include "support.h"
#include "world.h"

START_TEST(alone_it_is_fast)
{
	struct world w;

	world_init(&w, &automatic, solid);
	world_pass(&w, 20 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_FAST);
	ck_assert_uint_le(w.waited_usec, 20 * USEC_PER_SEC / 25);
}
END_TEST

/* Nothing is spared, but the ceiling holds. */
START_TEST(without_a_disk_there_is_a_ceiling)
{
	struct controller_options o = { .rate_min = MiB(1),
					.rate_max = MiB(16),
					.ignore_foreign = true };
	struct world w;

	world_init(&w, &o, with_reads(solid, 300));
	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_FAST);
	ck_assert_uint_eq(w.syncs, 0);
	ck_assert_uint_ge(w.bytes, MiB(16) * 9);
	ck_assert_uint_le(w.bytes, MiB(16) * 11);
	/* So where foreign I/O could be seen. */
	o.observed = true;
	o.rate_max = 0;
	world_init(&w, &o, with_reads(solid, 300));
	world_pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_eq(w.fast_usec, 1 * USEC_PER_SEC);
}
END_TEST

START_TEST(own_reads_are_not_foreign)
{
	struct device d = solid;
	struct world w;

	d.own_sectors = 16;
	world_init(&w, &automatic, d);
	world_pass(&w, 20 * USEC_PER_SEC);
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
	world_pass(&w, 100 * MSEC);
	ck_assert_int_eq(w.c.mode, PACING_FAST);
}
END_TEST

START_TEST(presumed_company_that_is_there)
{
	struct world w;

	world_init(&w, &cautious, with_reads(solid, 30));
	world_pass(&w, 100 * MSEC);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	world_pass(&w, 5 * USEC_PER_SEC);
	ck_assert_uint_eq(w.fast_usec, 0);
}
END_TEST

START_TEST(foreign_io_begins_and_ends)
{
	struct world w;

	world_init(&w, &automatic, solid);
	world_pass(&w, 3 * USEC_PER_SEC);
	w.d.reads_per_sec = 30;
	w.read_at = w.now;
	world_pass(&w, 200 * MSEC);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	w.fast_usec = 0;
	world_pass(&w, 20 * USEC_PER_SEC);
	ck_assert_uint_eq(w.fast_usec, 0);
	w.d.reads_per_sec = 0;
	world_pass(&w, 1 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_FAST);
}
END_TEST

/* Without small pieces a foreign sync would wait for all that a batch frees. */
START_TEST(pieces_cost_what_they_may)
{
	struct device d = with_reads(solid, 90);
	struct pacing_view v;
	struct world w;
	uint64_t freed;

	d.byte_usec *= 4;
	world_init(&w, &cautious, d);
	world_pass(&w, 5 * USEC_PER_SEC);
	freed = w.bytes;
	world_pass(&w, 5 * USEC_PER_SEC);
	/* 1.3 ms for a piece: the sync's 1 ms and 0.3 ms of its own. */
	controller_view(&w.c, &v);
	ck_assert_uint_le(v.quantum_usec, 1700);
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
	world_pass(&w, 1 * USEC_PER_SEC);
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
	world_pass(&w, 5 * USEC_PER_SEC);
	ck_assert_uint_le(w.c.entries.limit, 64);
	ck_assert_uint_ge(w.c.bytes.limit, MiB(8));
}
END_TEST

/* A larger piece would save syncs, which are few by then, and leave more to foreign syncs. */
START_TEST(pieces_need_not_be_larger_than_is_worth_a_sync)
{
	struct device d = with_reads(solid, 90);
	struct world w;

	/* 100 entries take 0.2 ms, and a sync 1 ms whatever it commits. */
	d.entry_usec = d.byte_usec = 0;
	world_init(&w, &cautious, d);
	w.by_entries = true;
	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_ge(w.c.entries.limit, 1500);
	ck_assert_uint_le(w.c.entries.limit, 5000);
}
END_TEST

/* Foreign reads are slower while we work: it is us, and we do less. */
START_TEST(slower_in_bursts_is_ours)
{
	struct device d = with_reads(solid, 300);
	struct world w;

	d.suffer = 2;
	world_init(&w, &cautious, d);
	world_pass(&w, 20 * USEC_PER_SEC);
	ck_assert_double_lt(w.c.share, 0.35);
}
END_TEST

/* They are slower whether we work or not: it is not us. */
START_TEST(slower_in_gaps_too_is_not_ours)
{
	struct world w;
	double before;

	world_init(&w, &cautious, with_reads(solid, 300));
	world_pass(&w, 10 * USEC_PER_SEC);
	before = w.c.share;
	w.d.read_usec *= 5;
	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_double_ge(w.c.share, before);
	ck_assert_double_ge(w.c.share, 0.8);
}
END_TEST

/* Beside a process that only writes in place, and flushes for each transaction. */
static struct device with_flushes(struct device d)
{
	d = with_reads(d, 300);
	d.sync_usec = 12 * MSEC;
	d.flushes_per_sec = 200;
	d.flush_usec = 1 * MSEC;
	return d;
}

/* What a sync of ours takes is no measure of what it may wait. */
START_TEST(foreign_syncs_that_are_short_and_many)
{
	struct device d = with_flushes(solid);
	struct world w;

	world_init(&w, &cautious, d);
	world_pass(&w, 5 * USEC_PER_SEC);
	ck_assert_double_le(w.c.share, 0.05);
	/* Few of them. */
	w.d.flushes_per_sec = 30;
	world_pass(&w, 20 * USEC_PER_SEC);
	ck_assert_double_ge(w.c.share, 0.8);
	/* Or where ours are no longer than theirs. */
	w.d.flushes_per_sec = 200;
	w.d.sync_usec = 2 * MSEC;
	world_pass(&w, 60 * USEC_PER_SEC);
	ck_assert_double_ge(w.c.share, 0.8);
	/* Or where nothing tells how long theirs are, as in an older trace. */
	d.flush_usec = 0;
	world_init(&w, &cautious, d);
	world_pass(&w, 20 * USEC_PER_SEC);
	ck_assert_double_ge(w.c.share, 0.8);
}
END_TEST

/* The canary's own flush is not taken for one of theirs. */
START_TEST(canaries_are_no_foreign_syncs)
{
	struct world w;

	world_init(&w, &cautious, with_flushes(solid));
	for (unsigned i = 0; i < 100; i++) {
		world_pass(&w, 50 * MSEC);
		ck_assert_double_le(w.c.flushes.usec, w.c.flushes.count * 1000 + 1);
	}
	ck_assert_uint_ge(w.s.canary_count, 3);
	ck_assert_double_gt(w.c.flushes.count, 1);
}
END_TEST

/* The device itself becomes slow: its syncs take longer, so pieces may. */
START_TEST(device_that_slows_down)
{
	struct world w;
	uint64_t before;

	world_init(&w, &cautious, with_reads(solid, 90));
	world_pass(&w, 10 * USEC_PER_SEC);
	before = w.c.bytes.limit;
	w.d.sync_usec *= 10;
	world_pass(&w, 20 * USEC_PER_SEC);
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
	world_pass(&w, 5 * USEC_PER_SEC);
	w.bytes = 0;
	world_pass(&w, 10 * USEC_PER_SEC);
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
	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_le(w.bytes, (uint64_t)MiB(64) * 10 * 21 / 20);
	ck_assert_uint_ge(w.bytes, (uint64_t)MiB(64) * 10 * 8 / 10);
	/* The same with foreign I/O, which bears more than that. */
	world_init(&w, &o, with_reads(solid, 300));
	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_le(w.bytes, (uint64_t)MiB(64) * 10 * 21 / 20);
}
END_TEST

START_TEST(no_piece_is_more_than_a_second_of_the_ceiling)
{
	struct controller_options o = cautious;
	struct device d = solid;
	struct world w;

	o.rate_max = MiB(4);
	d.byte_usec = 0.01 * MSEC / MiB(1);
	world_init(&w, &o, with_reads(d, 90));
	for (unsigned i = 0; i < 100; i++) {
		uint64_t before = w.bytes;

		world_pass(&w, USEC_PER_SEC);
		ck_assert_uint_le(w.bytes - before, MiB(8));
	}
	ck_assert_uint_ge(w.bytes, MiB(4) * 90);
	/* So when it is lowered, and no longer when it is lifted. */
	controller_limits(&w.c, 0, MiB(1), 0);
	world_pass(&w, 60 * USEC_PER_SEC);
	ck_assert_uint_ge(w.c.bytes.limit, MiB(16));
	controller_limits(&w.c, 0, MiB(1), MiB(2));
	ck_assert_uint_eq(w.c.bytes.limit, MiB(2));
}
END_TEST

START_TEST(a_named_bound_is_kept)
{
	struct controller_options o = cautious;
	struct pacing_view v;
	struct world w;

	o.latency_usec = 5 * MSEC;
	world_init(&w, &o, with_reads(solid, 90));
	world_pass(&w, 10 * USEC_PER_SEC);
	controller_view(&w.c, &v);
	ck_assert_uint_ge(v.quantum_usec, 3 * MSEC);
	ck_assert_uint_le(v.quantum_usec, 5500);
}
END_TEST

/* Counters that stand still, or are not there, hold nothing up. */
START_TEST(without_counters_it_goes_on)
{
	struct controller_options o = { .rate_min = MiB(8) };
	struct world w;

	world_init(&w, &o, solid);
	world_pass(&w, 10 * USEC_PER_SEC);
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
	world_pass(&w, 3 * USEC_PER_SEC);
	w.now += 600 * USEC_PER_SEC; /* suspended, or stopped */
	w.read_at = w.now;
	world_pass(&w, 1 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	bytes = w.bytes;
	/* The device was replaced: counters begin anew. */
	w.s.reads = w.s.requests = w.s.read_sectors = w.s.flushes = w.s.read_usec = 0;
	world_pass(&w, 1 * USEC_PER_SEC);
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
	world_pass(&w, 2 * USEC_PER_SEC);
	ck_assert_uint_eq(w.waited_usec, 0);
	controller_urgent(&w.c, false);
	world_pass(&w, 1 * USEC_PER_SEC);
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
	world_pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_ge(w.s.flushes, w.bytes / MiB(256) - 2);
	ck_assert_uint_ge(w.bytes, (uint64_t)MiB(256) * 10);
}
END_TEST

/* A scan: foreign requests wait for each of ours, so there are few, and nothing to be synced. */
START_TEST(readings_leave_time_to_foreign_io)
{
	struct controller_options o = cautious;
	struct device d = with_reads(solid, 90);
	struct world w;

	o.reads_only = true;
	d.own_sectors = 16;
	world_init(&w, &o, d);
	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_PACED);
	ck_assert_uint_le(w.worked_usec, 10 * USEC_PER_SEC / 4);
	ck_assert_uint_ge(w.worked_usec, 10 * USEC_PER_SEC / 20);
	ck_assert_uint_eq(w.syncs, 0);
	/* Where a bound is given, it bounds. */
	o.latency_usec = 10 * MSEC;
	world_init(&w, &o, d);
	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_ge(w.worked_usec, 10 * USEC_PER_SEC / 2);
}
END_TEST

START_TEST(readings_alone_are_fast)
{
	struct controller_options o = automatic;
	struct world w;

	o.reads_only = true;
	world_init(&w, &o, solid);
	world_pass(&w, 20 * USEC_PER_SEC);
	ck_assert_int_eq(w.c.mode, PACING_FAST);
	ck_assert_uint_le(w.waited_usec, 20 * USEC_PER_SEC / 60);
	ck_assert_uint_eq(w.c.outstanding, w.working);
}
END_TEST

static uint64_t bytes_in(struct world *w, uint64_t usec)
{
	uint64_t before = w->bytes;

	world_pass(w, usec);
	return w->bytes - before;
}

/* What ext4 trims besides what was freed takes as long as it takes; what may be chosen is how
 * often. */
START_TEST(after_a_long_discard_there_is_calm)
{
	struct controller_options o = cautious;
	struct device d = with_reads(solid, 90);
	uint64_t usual, discard_cooldown;
	struct world w;

	o.discards = true;
	d.byte_usec *= 4;
	world_init(&w, &o, d);
	world_pass(&w, 5 * USEC_PER_SEC);
	usual = bytes_in(&w, USEC_PER_SEC);
	ck_assert_uint_gt(usual, MiB(8) * 5);

	/* As many short ones, whatever they come to, change nothing. */
	w.s.discards += 100;
	w.s.discard_usec += 100 * MSEC;
	ck_assert_uint_gt(bytes_in(&w, USEC_PER_SEC), usual / 2);
	ck_assert_uint_eq(w.c.totals.backoffs[BACKOFF_DISCARD], 0);

	w.s.discards += 1;
	w.s.discard_usec += 60 * MSEC;
	discard_cooldown = bytes_in(&w, 2 * USEC_PER_SEC);
	ck_assert_uint_eq(w.c.totals.backoffs[BACKOFF_DISCARD], 1);
	ck_assert_uint_lt(discard_cooldown, MiB(8) * 3);
	ck_assert_uint_ge(discard_cooldown, MiB(8));

	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_gt(bytes_in(&w, USEC_PER_SEC), usual / 2);
}
END_TEST

START_TEST(calm_is_for_foreign_io)
{
	struct controller_options o = automatic;
	uint64_t usual;
	struct world w;

	o.discards = true;
	world_init(&w, &o, solid);
	usual = bytes_in(&w, USEC_PER_SEC);
	w.s.discards += 1;
	w.s.discard_usec += 60 * MSEC;
	ck_assert_uint_gt(bytes_in(&w, USEC_PER_SEC), usual / 2);
	ck_assert_uint_eq(w.c.totals.backoffs[BACKOFF_DISCARD], 0);
}
END_TEST

static uint64_t count(const struct histogram *h, uint64_t from_usec, uint64_t to_usec)
{
	uint64_t n = 0;

	for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
		uint64_t bound = i < HISTOGRAM_BOUNDS ? histogram_bounds_usec[i] : UINT64_MAX;

		n += bound > from_usec && bound <= to_usec ? h->counts[i] : 0;
	}
	return n;
}

START_TEST(what_has_happened_is_counted)
{
	struct device d = with_reads(solid, 300);
	const struct pacing_totals *t;
	struct world w;

	/* Reads take 0.6 ms, 1.8 ms while a piece is at work; a sync takes 1 ms. */
	d.read_usec = 600;
	d.suffer = 2;
	d.byte_usec *= 4;
	world_init(&w, &automatic, d);
	t = &w.c.totals;
	world_pass(&w, 20 * USEC_PER_SEC);
	ck_assert_uint_eq(t->backoffs[BACKOFF_FOREIGN_IO], 1);
	ck_assert_uint_gt(t->backoffs[BACKOFF_READS], 2);
	ck_assert_uint_gt(t->backoffs[BACKOFF_QUANTUM], 0);
	/* All but those that were not looked at yet. */
	ck_assert_uint_ge(count(&t->reads, 0, UINT64_MAX), w.s.reads - 10);
	ck_assert_uint_eq(count(&t->reads, 0, 500), 0);
	ck_assert_uint_gt(count(&t->reads, 500, 1000), 100);
	ck_assert_uint_gt(count(&t->reads, 1000, 2500), 100);
	ck_assert_uint_eq(count(&t->reads, 2500, UINT64_MAX), 0);
	/* In gaps they take what they take without us. */
	ck_assert_uint_gt(count(&t->gap_reads, 500, 1000), 100);
	ck_assert_uint_eq(count(&t->gap_reads, 0, UINT64_MAX), count(&t->gap_reads, 500, 1000));
	ck_assert_uint_lt(count(&t->gap_reads, 0, UINT64_MAX), count(&t->reads, 0, UINT64_MAX));
	ck_assert_uint_eq(count(&t->syncs, 0, UINT64_MAX), w.s.canary_count);
	ck_assert_uint_ge(t->syncs.sum_usec, w.s.canary_count * 1000);
	ck_assert_uint_gt(count(&t->quanta, 0, UINT64_MAX), 100);
}
END_TEST

/* The figures of the last hour tell foreign reads while something is deleted from those in gaps. */
START_TEST(minutes_tell_bursts_from_gaps)
{
	struct latency_figures f[LATENCY_FIGURES_MOST], sums[LATENCY_KINDS][2] = { 0 };
	struct device d = with_reads(solid, 300);
	struct world w;
	size_t n;

	d.read_usec = 600;
	d.suffer = 2;
	d.byte_usec *= 4;
	world_init(&w, &automatic, d);
	world_pass(&w, 20 * USEC_PER_SEC);
	n = latency_hour_figures(&w.c.hour, w.s.now_usec, f);
	for (size_t i = 0; i < n; i++) {
		struct latency_figures *sum = &sums[f[i].kind][f[i].deleting];

		sum->count += f[i].count;
		sum->most_usec = MAX(sum->most_usec, f[i].most_usec);
	}
	ck_assert_uint_gt(sums[LATENCY_READS][0].count, 100);
	ck_assert_uint_gt(sums[LATENCY_READS][1].count, 100);
	ck_assert_uint_le(sums[LATENCY_READS][0].most_usec, 1000);
	ck_assert_uint_gt(sums[LATENCY_READS][1].most_usec, 1000);
	ck_assert_uint_gt(sums[LATENCY_SYNCS][0].count, 5);
	ck_assert_uint_gt(sums[LATENCY_SYNCS][1].count, 100);
	/* Alone, all reads are ours. */
	world_init(&w, &automatic, solid);
	world_pass(&w, 20 * USEC_PER_SEC);
	ck_assert_uint_eq(latency_hour_figures(&w.c.hour, w.s.now_usec, f), 0);
}
END_TEST

START_TEST(alone_it_gives_way_to_nothing)
{
	struct world w;

	world_init(&w, &automatic, solid);
	world_pass(&w, 20 * USEC_PER_SEC);
	for (int i = 0; i < PACING_BACKOFFS; i++)
		ck_assert_uint_eq(w.c.totals.backoffs[i], 0);
	ck_assert_uint_eq(count(&w.c.totals.quanta, 0, UINT64_MAX), 0);
}
END_TEST

/* Behind a server lanes go on side by side until there were more than the ceiling allows. */
START_TEST(a_ceiling_behind_a_server)
{
	static const struct controller_options o = {
		.rate_min = MiB(1), .rate_max = MiB(4), .ignore_foreign = true, .served = true
	};
	struct pacing_sample s = { .now_usec = USEC_PER_SEC };
	uint64_t entries = 0, rested = 0;
	struct controller c;

	controller_init(&c, &o, s.now_usec);
	for (; s.now_usec <= 11 * USEC_PER_SEC; s.now_usec += 20 * MSEC) {
		(void)controller_sample(&c, &s);
		/* A hundred entries are worth 400 KiB, and a tenth of a second. */
		if (controller_step(&c) == UINT64_MAX) {
			(void)controller_fast_spent(&c, 100, 0);
			entries += 100;
			rested = 0;
		} else {
			ck_assert_uint_gt(controller_next(&c, s.now_usec).not_before_usec,
					  s.now_usec);
			rested++;
		}
		ck_assert_uint_le(rested, 5);
	}
	ck_assert_uint_ge(entries * KiB(4), MiB(4) * 8);
	ck_assert_uint_le(entries * KiB(4), MiB(4) * 11);
	/* What was urgent is not waited for afterwards: here it would be an hour. */
	s.now_usec += USEC_PER_SEC;
	(void)controller_sample(&c, &s);
	controller_urgent(&c, true);
	(void)controller_fast_spent(&c, 1, MiB(14336));
	controller_begin(&c);
	(void)controller_spent(&c, s.now_usec, 1, MiB(14336), 1000);
	controller_urgent(&c, false);
	ck_assert_uint_eq(controller_step(&c), UINT64_MAX);
	ck_assert_uint_le(controller_next(&c, s.now_usec).not_before_usec, s.now_usec);
}
END_TEST

START_TEST(histograms_add_up)
{
	struct pacing_totals a = { .entries = 1 }, b = { .entries = 2, .backoffs = { 0, 3 } };

	histogram_add(&a.reads, 0, 1);
	histogram_add(&a.reads, 100, 2); /* up to, and including */
	histogram_add(&a.reads, 101, 4);
	histogram_add(&b.reads, 10 * USEC_PER_SEC, 8);
	histogram_add(&b.reads, 10 * USEC_PER_SEC + 1, 16);
	pacing_totals_merge(&a, &b);
	ck_assert_uint_eq(a.reads.counts[0], 3);
	ck_assert_uint_eq(a.reads.counts[1], 4);
	ck_assert_uint_eq(a.reads.counts[HISTOGRAM_BOUNDS - 1], 8);
	ck_assert_uint_eq(a.reads.counts[HISTOGRAM_BOUNDS], 16);
	ck_assert_uint_eq(a.reads.sum_usec, 200 + 404 + 24 * 10 * USEC_PER_SEC + 16);
	ck_assert_uint_eq(a.entries, 3);
	ck_assert_uint_eq(a.backoffs[1], 3);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { alone_it_is_fast,
				 own_reads_are_not_foreign,
				 without_a_disk_there_is_a_ceiling,
				 presumed_company_that_is_not_there,
				 presumed_company_that_is_there,
				 foreign_io_begins_and_ends,
				 pieces_cost_what_they_may,
				 what_costs_nothing_grows,
				 entries_are_bounded_on_their_own,
				 slower_in_bursts_is_ours,
				 slower_in_gaps_too_is_not_ours,
				 foreign_syncs_that_are_short_and_many,
				 canaries_are_no_foreign_syncs,
				 device_that_slows_down,
				 never_slower_than_the_floor,
				 never_faster_than_the_ceiling,
				 no_piece_is_more_than_a_second_of_the_ceiling,
				 a_named_bound_is_kept,
				 pieces_need_not_be_larger_than_is_worth_a_sync,
				 without_counters_it_goes_on,
				 time_that_jumps,
				 urgent_knows_no_limits,
				 discards_are_not_piled_up,
				 readings_leave_time_to_foreign_io,
				 readings_alone_are_fast,
				 after_a_long_discard_there_is_calm,
				 calm_is_for_foreign_io,
				 what_has_happened_is_counted,
				 minutes_tell_bursts_from_gaps,
				 alone_it_gives_way_to_nothing,
				 a_ceiling_behind_a_server,
				 histograms_add_up };

	return run_case("controller", tests, ELEMENTSOF(tests));
}
