/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long what is left may take, and when that is said at all. */
#include "ctl/output/estimate.h"
#include "support.h"
#include "base/macros.h"

#define MOMENT (1000 * USEC_PER_SEC)
#define TICK (USEC_PER_SEC / 4)

START_TEST(nothing_is_said_of_the_first_moments)
{
	struct estimate e = { 0 };
	uint64_t now = MOMENT;

	ck_assert_uint_eq(estimate_left(&e, 100), 0);
	/* Half of a minute in which nothing is done does not count... */
	for (unsigned i = 0; i < 120; i++, now += TICK)
		estimate_add(&e, now, 0);
	/* ... and then the rate is said when there is one: a hundred a second. */
	for (unsigned i = 0; i < 12; i++, now += TICK) {
		estimate_add(&e, now, 25.0 * i);
		ck_assert_uint_eq(estimate_left(&e, 1000), 0);
	}
	estimate_add(&e, now, 300);
	ck_assert_double_eq_tol((double)estimate_left(&e, 1000), 10e6, 1e6);
}
END_TEST

/* As of a job that has been running for long when it is first asked about. */
START_TEST(what_was_done_before_does_not_count)
{
	struct estimate e = { 0 };

	for (unsigned i = 0; i < 20; i++) {
		uint64_t left;

		estimate_add(&e, MOMENT + i * TICK, 1e9 + 10.0 * i);
		left = estimate_left(&e, 4000);
		ck_assert(left == 0 || (left > 90 * USEC_PER_SEC && left < 110 * USEC_PER_SEC));
	}
	ck_assert_uint_gt(estimate_left(&e, 4000), 0);
}
END_TEST

START_TEST(the_last_seconds_count)
{
	struct estimate e = { 0 };
	uint64_t now = MOMENT;
	double done = 0;

	for (unsigned i = 0; i < 400; i++, now += TICK)
		estimate_add(&e, now, done += 1000);
	for (unsigned i = 0; i < 80; i++, now += TICK)
		estimate_add(&e, now, done += 1);
	/* Four a second for twenty seconds. */
	ck_assert_double_eq_tol((double)estimate_left(&e, 40), 10e6, 1e6);
	/* What is begun anew is measured anew. */
	estimate_add(&e, now, 5);
	ck_assert_uint_eq(estimate_left(&e, 40), 0);
}
END_TEST

START_TEST(an_average_has_a_basis)
{
	ck_assert_uint_eq(estimate_average(1000, 1, 1000), 0);
	ck_assert_uint_eq(estimate_average(60 * USEC_PER_SEC, 0, 1000), 0);
	ck_assert_uint_eq(estimate_average(60 * USEC_PER_SEC, 9, 1000), 0);
	ck_assert_uint_eq(estimate_average(60 * USEC_PER_SEC, 1000, 1000), 0);
	ck_assert_uint_eq(estimate_average(60 * USEC_PER_SEC, 1000, 0), 0);
	ck_assert_uint_eq(estimate_average(60 * USEC_PER_SEC, 250, 1000), 180 * USEC_PER_SEC);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { nothing_is_said_of_the_first_moments,
				 what_was_done_before_does_not_count, the_last_seconds_count,
				 an_average_has_a_basis };

	return run_case("estimate", tests, ELEMENTSOF(tests));
}
