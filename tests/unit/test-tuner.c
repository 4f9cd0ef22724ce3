/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tuner against invented machines: a rate and a share of computing for each setting. */
#include "engine/tune/tuner.h"
#include "support.h"
#include "base/macros.h"

#define TICK 10000

struct machine {
	double (*rate)(struct setting s); /* entries per second */
	double (*busy)(struct setting s); /* CPUs in use */
};

struct outcome {
	struct setting last;
	double entries, best_entries; /* done; what the best of the settings seen would have done */
	unsigned changes;
};

/* A run of `seconds` with a tuner that was begun, from then on; compares with `reference` used all
 * the time. */
static struct outcome run(struct tuner *t, const struct machine *m, struct setting reference,
			  uint64_t began_usec, double seconds)
{
	struct outcome out = { .last = t->now };
	struct tuner_sample s = { .now_usec = began_usec };
	double cpu = 0, op = 0;

	for (double at = 0; at < seconds; at += TICK / 1e6) {
		struct setting next;
		double rate = m->rate(out.last);

		out.entries += rate * TICK / 1e6;
		out.best_entries += m->rate(reference) * TICK / 1e6;
		cpu += m->busy(out.last) * TICK;
		s.now_usec += TICK;
		/* Little's law: so many are under way, and so many end. Where none end, all lanes
		 * are between two directories. */
		op += rate > 0 ? out.last.lanes * TICK : 0;
		s.entries = (uint64_t)out.entries;
		/* A ring's are not timed. */
		if (out.last.backend == BACKEND_THREADS) {
			s.ops = s.entries;
			s.op_usec = (uint64_t)op;
		}
		s.cpu_usec = (uint64_t)cpu;
		next = tuner_next(t, &s);
		out.changes += next.lanes != out.last.lanes || next.backend != out.last.backend;
		out.last = next;
	}
	return out;
}

static struct outcome simulate(const struct machine *m, const struct tuner_options *o,
			       struct setting reference, double seconds)
{
	struct tuner t;

	tuner_init(&t, o);
	return run(&t, m, reference, USEC_PER_SEC, seconds);
}

static const struct tuner_options local = {
	.start = { BACKEND_THREADS, 2 },
	.lanes_max = 64,
	.cpus = 2,
	.uring_possible = true,
};
static const struct tuner_options far = {
	.start = { BACKEND_THREADS, 2 },
	.lanes_max = 64,
	.cpus = 2,
	.uring_possible = true,
	.remote = true,
};
/* Far, too, and foreign requests wait for the same server. */
static const struct tuner_options gentle = {
	.start = { BACKEND_THREADS, 1 },
	.lanes_max = 64,
	.cpus = 2,
	.uring_possible = true,
	.remote = true,
	.op_usec = TUNER_OP_AUTO,
};

static double cpu_bound_rate(struct setting s)
{
	double r = s.lanes == 1 ? 60000 : s.lanes == 2 ? 110000 : 90000;

	return s.backend == BACKEND_URING ? r / 2.5 : r;
}

static double cpu_bound_busy(struct setting s)
{
	return MIN(s.lanes, 2U);
}

START_TEST(computing_lanes_are_left_alone)
{
	static const struct machine m = { cpu_bound_rate, cpu_bound_busy };
	struct outcome o = simulate(&m, &local, local.start, 30);

	ck_assert_int_eq(o.last.backend, BACKEND_THREADS);
	ck_assert(o.entries >= o.best_entries * 0.97);
}
END_TEST

static double round_trip_rate(struct setting s)
{
	return MIN(s.lanes, 32U) * 900.0;
}

static double idle_busy(struct setting s)
{
	return MIN(s.lanes, 32U) * 0.01;
}

START_TEST(waiting_lanes_become_more)
{
	static const struct machine m = { round_trip_rate, idle_busy };
	struct outcome o = simulate(&m, &far, (struct setting){ BACKEND_THREADS, 32 }, 10);

	ck_assert_uint_ge(o.last.lanes, 32);
	ck_assert(o.entries >= o.best_entries * 0.85);
}
END_TEST

/* Its first moments are spent on listing, so that nothing is known of the lanes it begins with. */
static unsigned listing_ticks, served_at_a_time;

static double listed_first_rate(struct setting s)
{
	if (listing_ticks > 0) {
		listing_ticks--;
		return 0;
	}
	return MIN(s.lanes, served_at_a_time) * 300.0;
}

static struct outcome leap(unsigned at_a_time)
{
	static const struct machine m = { listed_first_rate, idle_busy };
	struct tuner_options o = far;

	o.start.lanes = 16;
	o.fixed_backend = true;
	listing_ticks = 8; /* two are asked for a tick */
	served_at_a_time = at_a_time;
	return simulate(&m, &o, (struct setting){ BACKEND_THREADS, 64 }, 3);
}

START_TEST(a_leap_that_brings_nothing_is_taken_back)
{
	struct outcome o = leap(10);

	ck_assert_uint_eq(o.last.lanes, 16);
	ck_assert(o.entries >= o.best_entries * 0.97);
	/* Not to fewer than it needs. */
	o = leap(20);
	ck_assert_uint_eq(o.last.lanes, 32);
	ck_assert(o.entries >= o.best_entries * 0.97);
}
END_TEST

START_TEST(a_leap_that_pays_costs_little)
{
	struct outcome o = leap(64);

	ck_assert_uint_eq(o.last.lanes, 64);
	ck_assert(o.entries >= o.best_entries * 0.95);
}
END_TEST

static double ring_rate(struct setting s)
{
	return s.backend == BACKEND_URING ? 9000 : 3000;
}

/* Eight are served at a time, and those of a ring twice as quickly. */
static double ring_or_round_trip_rate(struct setting s)
{
	return MIN(s.lanes, 8U) * (s.backend == BACKEND_URING ? 1800.0 : 900.0);
}

START_TEST(a_better_backend_is_found_when_lanes_wait)
{
	static const struct machine m = { ring_rate, idle_busy };
	struct outcome o = simulate(&m, &far, (struct setting){ BACKEND_URING, 2 }, 60);

	ck_assert_int_eq(o.last.backend, BACKEND_URING);
}
END_TEST

START_TEST(a_ring_is_found_within_the_bound)
{
	static const struct machine m = { ring_or_round_trip_rate, idle_busy };
	struct outcome o = simulate(&m, &gentle, (struct setting){ BACKEND_URING, 8 }, 60);

	ck_assert_int_eq(o.last.backend, BACKEND_URING);
	ck_assert(o.entries >= o.best_entries * 0.8);
}
END_TEST

START_TEST(trials_in_vain_cost_little)
{
	/* Waiting, yet nothing helps: every trial is in vain, and some are terrible. */
	static const struct machine m = { cpu_bound_rate, idle_busy };
	struct outcome o = simulate(&m, &far, far.start, 120);

	ck_assert(o.entries >= o.best_entries * 0.95);
}
END_TEST

START_TEST(lanes_that_wait_for_each_other_stay_few)
{
	/* No CPU in use, and no disk either: locks. */
	static const struct machine m = { round_trip_rate, idle_busy };
	struct outcome o = simulate(&m, &local, local.start, 2);

	ck_assert_uint_le(o.last.lanes, 2);
}
END_TEST

/* Ten requests are served at a time, the others wait: the rate does not grow, and all take longer.
 */
static double ten_at_a_time_rate(struct setting s)
{
	return MIN(s.lanes, 10U) * 900.0;
}

START_TEST(where_foreign_requests_would_wait_lanes_stay_fewer)
{
	static const struct machine m = { ten_at_a_time_rate, idle_busy };
	struct tuner_options bounded = gentle;
	struct outcome o;

	o = simulate(&m, &gentle, (struct setting){ BACKEND_THREADS, 10 }, 5);
	ck_assert_uint_ge(o.last.lanes, 8);
	ck_assert_uint_le(o.last.lanes, 12);
	ck_assert(o.entries >= o.best_entries * 0.95);
	/* In half a second most of that is known. */
	o = simulate(&m, &gentle, (struct setting){ BACKEND_THREADS, 10 }, 0.5);
	ck_assert(o.entries >= o.best_entries * 0.9);
	/* 0.9 ms allow for the ten; a bound of 5 ms for many more, which gain nothing. */
	bounded.op_usec = 5000;
	o = simulate(&m, &bounded, (struct setting){ BACKEND_THREADS, 10 }, 5);
	ck_assert_uint_ge(o.last.lanes, 8);
	bounded.op_usec = 1000;
	o = simulate(&m, &bounded, (struct setting){ BACKEND_THREADS, 1 }, 5);
	ck_assert_uint_eq(o.last.lanes, 1);
}
END_TEST

/* Small directories: lanes that began together open and list the next ones together, and for half
 * of the time nothing is removed. An operation takes what it took alone. */
static double opening_rate(struct setting s)
{
	static unsigned n;

	n++;
	return s.lanes > 1 && n / 2 % 2 ? 0 : MIN(s.lanes, 10U) * 900.0;
}

START_TEST(time_between_directories_is_not_the_servers)
{
	static const struct machine m = { opening_rate, idle_busy };
	struct outcome o = simulate(&m, &gentle, (struct setting){ BACKEND_THREADS, 8 }, 2);

	ck_assert_uint_ge(o.last.lanes, 8);
	ck_assert(o.entries >= o.best_entries * 0.9);
}
END_TEST

/* Everything is computed on the same two CPUs: a second lane only makes all wait. How much was done
 * with more than one is counted. */
static double crowded;

static double crowded_rate(struct setting s)
{
	crowded += s.lanes > 1 ? 5000.0 * TICK / 1e6 : 0;
	return 5000;
}

START_TEST(where_all_would_wait_that_is_found_out_quickly)
{
	static const struct machine m = { crowded_rate, idle_busy };
	struct outcome o;

	crowded = 0;
	o = simulate(&m, &gentle, (struct setting){ BACKEND_THREADS, 1 }, 2);
	ck_assert_uint_eq(o.last.lanes, 1);
	/* `reference` is looked at once a tick, too. */
	ck_assert(crowded < o.entries * 0.09);
}
END_TEST

/* Eight lanes whose operations take a fifth more each, which no window alone shows. */
static double noisy_rate(struct setting s)
{
	static const double noise[] = { 1.25, 0.8, 0.9, 1.15, 0.95 };
	static unsigned n;
	unsigned lanes = MIN(s.lanes, 8U);

	n++;
	return lanes * 900.0 / (1 + (lanes - 1) * 0.2 / 7) * (lanes > 1 ? noise[n / 4 % 5] : 1);
}

START_TEST(one_window_is_no_reason_to_have_fewer_lanes)
{
	static const struct machine m = { noisy_rate, idle_busy };
	double part = 0;

	for (unsigned i = 0; i < 20; i++) {
		struct outcome o = simulate(&m, &gentle, (struct setting){ BACKEND_THREADS, 8 },
					    0.5 + i * 0.013);

		part += o.entries / o.best_entries / 20;
	}
	ck_assert(part > 0.88);
}
END_TEST

/* What a server does by itself, and when: 0 lasts. */
static double slow_from, slow_factor;

static double own_trouble_rate(struct setting s)
{
	slow_from -= TICK / 1e6;
	return MIN(s.lanes, 64U) * 900.0 / (slow_from < 0 ? slow_factor : 1);
}

static double foreign_io_begins_rate(struct setting s)
{
	/* 8,000 in a second in all, of which foreign I/O takes 6,000. */
	slow_from -= TICK / 1e6;
	return MIN(s.lanes * 900.0, slow_from < 0 ? 2000.0 : 8000.0);
}

/* A server that stands still for a moment, now and then. */
static double hiccup_rate(struct setting s)
{
	slow_from -= TICK / 1e6;
	if (slow_from < 0)
		slow_from = 0.5;
	return MIN(s.lanes, 10U) * 900.0 / (slow_from > 0.46 ? 4 : 1);
}

START_TEST(a_moment_is_no_reason_to_have_fewer_lanes)
{
	static const struct machine m = { hiccup_rate, idle_busy };
	struct outcome o;

	slow_from = 0.4;
	o = simulate(&m, &gentle, (struct setting){ BACKEND_THREADS, 10 }, 5);
	ck_assert_uint_ge(o.last.lanes, 8);
	ck_assert(o.entries >= o.best_entries * 0.85);
}
END_TEST

START_TEST(a_slow_server_is_told_from_our_own_load)
{
	static const struct machine alone = { own_trouble_rate, idle_busy };
	static const struct machine shared = { foreign_io_begins_rate, idle_busy };
	struct outcome o;

	slow_from = 6;
	slow_factor = 4;
	o = simulate(&alone, &gentle, (struct setting){ BACKEND_THREADS, 64 }, 10);
	ck_assert_uint_eq(o.last.lanes, 64);
	slow_from = 6;
	o = simulate(&shared, &gentle, (struct setting){ BACKEND_THREADS, 2 }, 10);
	ck_assert_uint_le(o.last.lanes, 3);
}
END_TEST

START_TEST(a_bound_may_come_and_go)
{
	struct tuner_sample s = { .now_usec = 1000000 };
	struct tuner_options o = far;
	struct setting x = { BACKEND_THREADS, 1 };
	double entries = 0;
	struct tuner t;

	o.start.lanes = 1;
	o.op_usec = 1000; /* which is less than one takes alone */
	o.fixed_backend = true;
	tuner_init(&t, &o);
	for (unsigned i = 0; i < 15 * USEC_PER_SEC / TICK; i++) {
		if (i == 5 * USEC_PER_SEC / TICK) {
			ck_assert_uint_eq(x.lanes, 1);
			tuner_bound(&t, 0);
		} else if (i == 10 * USEC_PER_SEC / TICK) {
			ck_assert_uint_ge(x.lanes, 16);
			tuner_bound(&t, 1000);
		}
		entries += round_trip_rate(x) * TICK / 1e6;
		s.now_usec += TICK;
		s.entries = s.ops = (uint64_t)entries;
		s.op_usec += x.lanes * TICK;
		x = tuner_next(&t, &s);
	}
	ck_assert_uint_eq(x.lanes, 1);
}
END_TEST

/* So many runs of a quarter of a second, one after the other, with a pause of `pause` seconds
 * between them. `change` changes the options of each but the first, or is NULL. Of what `reference`
 * would have done from the third on, the part that was. */
static double short_runs(const struct machine *m, const struct tuner_options *first,
			 struct setting reference, double pause,
			 void (*change)(struct tuner_options *o, unsigned run))
{
	uint64_t now = USEC_PER_SEC;
	double done = 0, best = 0;
	struct tuner t = { 0 };

	for (unsigned i = 0; i < 12; i++) {
		struct tuner_options o = *first;
		struct outcome out;

		if (change)
			change(&o, i);
		tuner_begin(&t, &o, now);
		out = run(&t, m, reference, now, 0.25);
		now += USEC_PER_SEC / 4;
		tuner_end(&t, now);
		now += (uint64_t)(pause * 1e6);
		done += i < 2 ? 0 : out.entries;
		best += i < 2 ? 0 : out.best_entries;
	}
	return done / best;
}

static void change_filesystem(struct tuner_options *o, unsigned n)
{
	o->filesystem = n;
}

static void change_bound(struct tuner_options *o, unsigned n)
{
	o->op_usec = n % 2 ? TUNER_OP_AUTO : 5000;
}

/* Eight milliseconds away, where what one operation takes alone is known after half of such a run.
 */
static double far_away_rate(struct setting s)
{
	return MIN(s.lanes, 10U) * 120.0;
}

START_TEST(the_next_run_goes_on_where_the_one_before_was)
{
	static const struct machine m = { far_away_rate, idle_busy };
	static const struct setting ten = { BACKEND_THREADS, 10 };

	ck_assert(short_runs(&m, &gentle, ten, 0.01, NULL) > 0.9);
	ck_assert(short_runs(&m, &gentle, ten, 20, NULL) > 0.9);
	/* Else each finds out anew. */
	ck_assert(short_runs(&m, &gentle, ten, 40, NULL) < 0.5);
	ck_assert(short_runs(&m, &gentle, ten, 0.01, change_filesystem) < 0.5);
	ck_assert(short_runs(&m, &gentle, ten, 0.01, change_bound) < 0.5);
}
END_TEST

START_TEST(a_local_run_begins_anew)
{
	struct tuner t = { 0 };

	tuner_begin(&t, &local, USEC_PER_SEC);
	t.best.lanes = t.now.lanes = 16;
	tuner_end(&t, 2 * USEC_PER_SEC);
	tuner_begin(&t, &local, 2 * USEC_PER_SEC);
	ck_assert_uint_eq(t.now.lanes, local.start.lanes);
	/* A clock that went back says nothing of how long ago that was. */
	tuner_begin(&t, &far, 3 * USEC_PER_SEC);
	t.now.lanes = t.best.lanes = 16;
	tuner_end(&t, 4 * USEC_PER_SEC);
	tuner_begin(&t, &far, 3 * USEC_PER_SEC);
	ck_assert_uint_eq(t.now.lanes, far.start.lanes);
}
END_TEST

START_TEST(what_is_fixed_stays)
{
	static const struct machine m = { ring_rate, idle_busy };
	struct tuner_options fixed = far;
	struct outcome o;

	fixed.fixed_backend = fixed.fixed_lanes = true;
	o = simulate(&m, &fixed, fixed.start, 20);
	ck_assert_uint_eq(o.changes, 0);
	fixed.fixed_backend = false;
	fixed.uring_possible = false;
	o = simulate(&m, &fixed, fixed.start, 20);
	ck_assert_uint_eq(o.changes, 0);
}
END_TEST

START_TEST(a_ring_that_cannot_be_had_is_asked_for_once)
{
	struct tuner_sample s = { .now_usec = 1000000 };
	struct tuner_options o = far;
	struct setting next;
	unsigned asked = 0;
	struct tuner t;

	o.fixed_lanes = true;
	tuner_init(&t, &o);
	for (unsigned i = 0; i < 60 * USEC_PER_SEC / TICK; i++) {
		s.now_usec += TICK;
		s.entries += 10;
		next = tuner_next(&t, &s);
		if (next.backend == BACKEND_URING) {
			asked++;
			next = tuner_without_ring(&t);
		}
		ck_assert_int_eq(next.backend, BACKEND_THREADS);
		ck_assert_uint_eq(next.lanes, o.start.lanes);
	}
	ck_assert_uint_eq(asked, 1);
}
END_TEST

START_TEST(odd_samples_do_no_harm)
{
	struct tuner t;
	struct tuner_sample s = { .now_usec = 5000000 };
	struct setting x;

	tuner_init(&t, &local);
	(void)tuner_next(&t, &s);
	s.now_usec = 1000; /* the clock went back */
	(void)tuner_next(&t, &s);
	s.now_usec = 1000; /* no time passed */
	(void)tuner_next(&t, &s);
	s.now_usec = 1000 + 3600 * USEC_PER_SEC; /* suspended for an hour, nothing done */
	(void)tuner_next(&t, &s);
	for (int i = 0; i < 1000; i++) {
		s.now_usec += TICK;
		s.starved = i % 2;
		x = tuner_next(&t, &s);
		ck_assert_uint_ge(x.lanes, 1);
		ck_assert_uint_le(x.lanes, local.lanes_max);
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = { computing_lanes_are_left_alone,
				 waiting_lanes_become_more,
				 a_leap_that_brings_nothing_is_taken_back,
				 a_leap_that_pays_costs_little,
				 a_better_backend_is_found_when_lanes_wait,
				 a_ring_is_found_within_the_bound,
				 trials_in_vain_cost_little,
				 lanes_that_wait_for_each_other_stay_few,
				 where_foreign_requests_would_wait_lanes_stay_fewer,
				 time_between_directories_is_not_the_servers,
				 where_all_would_wait_that_is_found_out_quickly,
				 one_window_is_no_reason_to_have_fewer_lanes,
				 a_moment_is_no_reason_to_have_fewer_lanes,
				 a_slow_server_is_told_from_our_own_load,
				 a_bound_may_come_and_go,
				 the_next_run_goes_on_where_the_one_before_was,
				 a_local_run_begins_anew,
				 what_is_fixed_stays,
				 a_ring_that_cannot_be_had_is_asked_for_once,
				 odd_samples_do_no_harm };

	return run_case("tuner", tests, ELEMENTSOF(tests));
}
