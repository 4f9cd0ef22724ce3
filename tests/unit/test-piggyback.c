/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pieces that go along with foreign commits, against an invented device (world.h). */
#include "support.h"
#include "world.h"

/* Half of what a sync costs is foreign I/O's, which commits often. */
static struct device with_commits(uint64_t per_sec)
{
	return (struct device){ .sync_usec = 1 * MSEC,
				.byte_usec = 2.0 * MSEC / MiB(8),
				.entry_usec = 2,
				.read_usec = 400,
				.reads_per_sec = 90,
				.commits_per_sec = per_sec };
}

static void begin_anew(struct world *w)
{
	w->bytes = w->syncs = 0;
}

START_TEST(foreign_commits_take_along)
{
	struct pacing_grant g;
	struct world w, own;

	world_init(&own, &cautious, with_commits(0));
	world_init(&w, &cautious, with_commits(100));
	world_pass(&own, 5 * USEC_PER_SEC);
	world_pass(&w, 5 * USEC_PER_SEC);
	begin_anew(&own);
	begin_anew(&w);
	world_pass(&own, 10 * USEC_PER_SEC);
	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_ge(own.syncs, 500);
	/* To measure only, and measured well: pieces are as large as they would be. */
	ck_assert_uint_le(w.syncs, 11);
	ck_assert_uint_ge(w.syncs, 8);
	ck_assert_uint_ge(w.c.bytes.limit * 10, own.c.bytes.limit * 8);
	ck_assert_uint_le(w.c.bytes.limit * 8, own.c.bytes.limit * 10);
	/* A part with each, and not more often than they come. */
	for (uint64_t i = 0; i < 1000; i++) {
		world_pass(&w, STEP);
		g = controller_next(&w.c, w.now);
		if (g.not_before_usec <= w.now)
			ck_assert_uint_le(g.bytes, w.c.bytes.limit / 4);
	}
	ck_assert_uint_le(w.bytes, w.c.bytes.limit / 4 * 100 * 11);
	ck_assert_uint_ge(w.bytes, w.c.bytes.limit / 4 * 50 * 10);
}
END_TEST

/* What no commit takes along does not pile up. */
START_TEST(foreign_commits_stop)
{
	struct world w;

	world_init(&w, &cautious, with_commits(100));
	world_pass(&w, 5 * USEC_PER_SEC);
	w.d.commits_per_sec = 0;
	world_pass(&w, 500 * MSEC);
	begin_anew(&w);
	world_pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_ge(w.syncs, 50);
	/* And are too few to wait for, where a disk has no head. */
	w.d.commits_per_sec = 10;
	w.commit_at = w.now;
	begin_anew(&w);
	world_pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_ge(w.syncs, 50);
}
END_TEST

/* A disk with a head: a sync takes a seek or two, and hardly longer with what a large file frees.
 */
static struct device with_head(uint64_t commits_per_sec)
{
	return (struct device){ .sync_usec = 5 * MSEC,
				.byte_usec = 0.01 * MSEC / MiB(1),
				.read_usec = 3 * MSEC,
				.reads_per_sec = 30,
				.commits_per_sec = commits_per_sec };
}

START_TEST(large_files_ride_on_few_commits)
{
	struct world w;
	uint64_t seen, freed, late = 0;

	world_init(&w, &cautious, with_head(10));
	world_pass(&w, 10 * USEC_PER_SEC);
	begin_anew(&w);
	world_pass(&w, 10 * USEC_PER_SEC);
	/* One before each canary, of which there are fewer the longer a sync takes. */
	ck_assert_uint_le(w.syncs, 6);
	ck_assert_uint_ge(w.syncs, 2);
	ck_assert_uint_ge(w.c.bytes.limit, MiB(128));
	/* Right after a commit the next one is the farthest away. */
	for (uint64_t i = 0; i < 20000; i++) {
		seen = w.s.commits;
		world_pass(&w, STEP);
		if (w.s.commits == seen || !w.c.piggybacked || w.c.gap)
			continue;
		freed = w.bytes;
		world_pass(&w, 25 * MSEC);
		late += w.bytes == freed;
	}
	ck_assert_uint_le(late, 5);
}
END_TEST

START_TEST(entries_do_not_ride_on_few_commits)
{
	struct device d = with_head(10);
	struct world w;

	d.entry_usec = 5;
	world_init(&w, &cautious, d);
	w.by_entries = true;
	world_pass(&w, 5 * USEC_PER_SEC);
	begin_anew(&w);
	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_ge(w.syncs, 50);
}
END_TEST

START_TEST(discards_are_not_left_to_foreign_commits)
{
	struct controller_options o = cautious;
	struct world w;

	o.discards = true;
	world_init(&w, &o, with_commits(100));
	world_pass(&w, 5 * USEC_PER_SEC);
	begin_anew(&w);
	world_pass(&w, 1 * USEC_PER_SEC);
	ck_assert_uint_ge(w.syncs, 50);
}
END_TEST

/* Waiting for foreign commits is no reason to be slower than the configuration has it, in bytes or
 * entries. What is at least is so in bursts; a fifth of the time are gaps. */
START_TEST(the_floor_holds_while_it_rides)
{
	struct controller_options o = cautious;
	struct device expensive = with_head(6);
	struct world w;

	o.rate_min = MiB(400);
	for (int by_entries = 0; by_entries < 2; by_entries++) {
		world_init(&w, &o, with_commits(45));
		w.by_entries = by_entries;
		world_pass(&w, 10 * USEC_PER_SEC);
		begin_anew(&w);
		world_pass(&w, 10 * USEC_PER_SEC);
		ck_assert_uint_le(w.syncs, 11);
		ck_assert_uint_ge(w.bytes, MiB(400) * 10 / 2);
	}
	expensive.byte_usec = 10.0 * MSEC / MiB(1);
	world_init(&w, &cautious, expensive);
	world_pass(&w, 10 * USEC_PER_SEC);
	begin_anew(&w);
	world_pass(&w, 10 * USEC_PER_SEC);
	ck_assert_uint_le(w.syncs, 6);
	ck_assert_uint_ge(w.bytes, MiB(8) * 10);
}
END_TEST

/* Nor, before a canary, for being faster. */
START_TEST(the_ceiling_holds_while_it_rides)
{
	const uint64_t ceilings[] = { MiB(1), MiB(27) };
	struct controller_options o = cautious;
	struct world w;

	o.rate_min = MiB(1);
	for (size_t i = 0; i < 2; i++) {
		o.rate_max = ceilings[i];
		world_init(&w, &o, i == 0 ? with_commits(100) : with_head(10));
		world_pass(&w, 10 * USEC_PER_SEC);
		begin_anew(&w);
		world_pass(&w, 600 * USEC_PER_SEC);
		ck_assert_uint_le(w.bytes, ceilings[i] * 600 * 105 / 100);
		ck_assert_uint_ge(w.bytes, ceilings[i] * 600 * 90 / 100);
		ck_assert_uint_ge(w.syncs, 10);
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { foreign_commits_take_along,
				 foreign_commits_stop,
				 large_files_ride_on_few_commits,
				 entries_do_not_ride_on_few_commits,
				 discards_are_not_left_to_foreign_commits,
				 the_floor_holds_while_it_rides,
				 the_ceiling_holds_while_it_rides };

	return run_case("piggyback", tests, sizeof(tests) / sizeof(tests[0]));
}
