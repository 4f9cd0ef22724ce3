/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Others' requests go first, within the floor of the rate. */
#include "pacing/yield.h"
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

START_TEST(nobody_is_waited_for)
{
	struct yield y = ahead();

	ck_assert_uint_eq(yield_look(&y, NOW + MSEC, 0), NOW + MSEC);
}
END_TEST

START_TEST(requests_go_first)
{
	struct yield y = ahead();
	uint64_t now = NOW;

	for (int i = 0; i < 20; i++) {
		uint64_t at = yield_look(&y, now, 1);

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

	(void)yield_look(&y, seen, 1);
	at = yield_look(&y, seen + 100, 0);
	ck_assert_uint_ge(at, seen + MSEC);
	ck_assert_uint_eq(yield_look(&y, at, 0), at);
}
END_TEST

START_TEST(the_floor_is_kept)
{
	struct yield y = { 0 };

	ck_assert_uint_eq(yield_look(&y, NOW, 1), NOW);
	yield_spent(&y, NOW, 10 * MSEC);
	ck_assert_uint_gt(yield_look(&y, NOW + 9 * MSEC, 1), NOW + 9 * MSEC);
	ck_assert_uint_eq(yield_look(&y, NOW + 10 * MSEC, 1), NOW + 10 * MSEC);
}
END_TEST

START_TEST(what_was_done_long_ago_is_forgotten)
{
	struct yield y = { 0 };

	for (int i = 0; i < 1000; i++)
		yield_spent(&y, NOW, 1 * USEC_PER_SEC);
	ck_assert_uint_gt(yield_look(&y, NOW + 900 * MSEC, 1), NOW + 900 * MSEC);
	ck_assert_uint_eq(yield_look(&y, NOW + 1100 * MSEC, 1), NOW + 1100 * MSEC);
}
END_TEST

/* With no floor it may be waited for as long as it takes, but not for ever at a time. */
START_TEST(without_a_floor)
{
	struct yield y = { 0 };

	yield_spent(&y, NOW, 0);
	ck_assert_uint_gt(yield_look(&y, NOW + 500 * MSEC, 1), NOW + 500 * MSEC);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { nobody_is_waited_for,
				 requests_go_first,
				 and_what_follows_them,
				 the_floor_is_kept,
				 what_was_done_long_ago_is_forgotten,
				 without_a_floor };

	return run_case("yield", tests, ELEMENTSOF(tests));
}
