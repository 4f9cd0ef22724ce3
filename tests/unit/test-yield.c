/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Foreign requests go first, within the floor of the rate. */
#include "pacing/control/controller-state.h"
#include "support.h"
#include "world.h"

#define NOW (1000 * MSEC)

/* One who has done far more than the floor asks for, and may wait. */
static struct yield ahead(void)
{
	struct yield y = { 0 };

	yield_spent(&y, NOW, 1 * USEC_PER_SEC);
	return y;
}

START_TEST(without_requests_there_is_no_wait)
{
	struct yield y = ahead();

	ck_assert_uint_eq(yield_check(&y, NOW + MSEC, 0), NOW + MSEC);
}
END_TEST

START_TEST(requests_go_first)
{
	struct yield y = ahead();
	uint64_t now = NOW;

	for (int i = 0; i < 20; i++) {
		uint64_t at = yield_check(&y, now, 1);

		ck_assert_uint_gt(at, now);
		ck_assert_uint_le(at, now + MSEC);
		now = at;
	}
}
END_TEST

/* What comes next of the same sync is not there yet when one request has ended. */
START_TEST(and_what_follows_them)
{
	struct yield y = ahead();
	uint64_t seen = NOW + MSEC, at;

	(void)yield_check(&y, seen, 1);
	at = yield_check(&y, seen + 100, 0);
	ck_assert_uint_ge(at, seen + MSEC);
	ck_assert_uint_eq(yield_check(&y, at, 0), at);
}
END_TEST

START_TEST(the_floor_is_kept)
{
	struct yield y = { 0 };

	ck_assert_uint_eq(yield_check(&y, NOW, 1), NOW);
	yield_spent(&y, NOW, 10 * MSEC);
	ck_assert_uint_gt(yield_check(&y, NOW + 9 * MSEC, 1), NOW + 9 * MSEC);
	ck_assert_uint_eq(yield_check(&y, NOW + 10 * MSEC, 1), NOW + 10 * MSEC);
}
END_TEST

START_TEST(what_was_done_long_ago_is_forgotten)
{
	struct yield y = { 0 };

	for (int i = 0; i < 1000; i++)
		yield_spent(&y, NOW, 1 * USEC_PER_SEC);
	ck_assert_uint_gt(yield_check(&y, NOW + 900 * MSEC, 1), NOW + 900 * MSEC);
	ck_assert_uint_eq(yield_check(&y, NOW + 1100 * MSEC, 1), NOW + 1100 * MSEC);
}
END_TEST

/* With no floor it may be waited for as long as it takes, but not for ever at a time. */
START_TEST(without_a_floor)
{
	struct yield y = { 0 };

	yield_spent(&y, NOW, 0);
	ck_assert_uint_gt(yield_check(&y, NOW + 500 * MSEC, 1), NOW + 500 * MSEC);
}
END_TEST

/* A solid disk, and one with a head; there are 40 foreign reads a second. */
static const struct device without_head = {
	.sync_usec = 1 * MSEC, .entry_usec = 2, .read_usec = 400, .reads_per_sec = 40
};
static const struct device head = {
	.sync_usec = 8 * MSEC, .entry_usec = 2, .read_usec = 4 * MSEC, .reads_per_sec = 40
};

static void world_of_entries(struct world *w, struct device d)
{
	world_init(w, &cautious, d);
	w->by_entries = true;
	world_pass(w, 3 * USEC_PER_SEC);
}

/* With one head, what a foreign request waits for is our next one: before each few entries it is
 * seen whether one waits. */
START_TEST(a_disk_with_a_head_is_asked_often)
{
	uint64_t most = 0;
	struct world w;

	world_of_entries(&w, without_head);
	ck_assert(!controller_yields(&w.c));
	world_of_entries(&w, head);
	for (int i = 0; i < 10000; i++) {
		struct pacing_grant g = controller_next(&w.c, w.now);

		ck_assert(controller_yields(&w.c));
		most = MAX(most, g.not_before_usec <= w.now ? g.entries : 0);
		world_pass(&w, STEP);
	}
	ck_assert_uint_gt(most, 1);
	ck_assert_uint_le(most, 16);

	controller_urgent(&w.c, true);
	ck_assert(!controller_yields(&w.c));
}
END_TEST

/* The lane may be waiting for a foreign request when the gap comes; then the canary must not pay
 * for what it has done. */
START_TEST(no_part_of_a_piece_is_left_for_the_canary)
{
	bool early = false, late = false;
	struct world w;

	world_of_entries(&w, head);
	for (int i = 0; i < 10000; i++) {
		uint64_t age = w.now - w.c.phase_since_usec;
		struct controller c = w.c;

		world_pass(&w, STEP);
		c.entries.used = 0;
		if (c.gap || !controller_yields(&c))
			continue;
		if (age < 100 * MSEC) {
			early = true;
			ck_assert(!controller_spent(&c, c.phase_since_usec + age, 1, 0, STEP));
		} else if (age >= 145 * MSEC) {
			late = true;
			ck_assert(controller_spent(&c, c.phase_since_usec + age, 1, 0, STEP));
		}
	}
	ck_assert(early && late);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { without_requests_there_is_no_wait,
				 requests_go_first,
				 and_what_follows_them,
				 the_floor_is_kept,
				 what_was_done_long_ago_is_forgotten,
				 without_a_floor,
				 a_disk_with_a_head_is_asked_often,
				 no_part_of_a_piece_is_left_for_the_canary };

	return run_case("yield", tests, ELEMENTSOF(tests));
}
