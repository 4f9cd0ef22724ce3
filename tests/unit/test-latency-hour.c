/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What requests took in each minute of the last hour. */
#include "base/macros.h"
#include "pacing/control/latency-hour.h"
#include "support.h"

#define MINUTE (60 * USEC_PER_SEC)
#define DELETING true

static struct latency_figures figures[LATENCY_FIGURES_MOST];

START_TEST(minutes_come_one_by_one)
{
	struct latency_hour h = { 0 };
	size_t n;

	ck_assert_uint_eq(latency_hour_figures(&h, 100 * MINUTE, figures), 0);
	latency_hour_add(&h, 0, LATENCY_READS, !DELETING, 80, 4);
	latency_hour_add(&h, MINUTE - 1, LATENCY_READS, !DELETING, 80, 4);
	latency_hour_add(&h, MINUTE, LATENCY_READS, DELETING, 400, 1);
	latency_hour_add(&h, 3 * MINUTE, LATENCY_SYNCS, DELETING, 4000, 1);
	n = latency_hour_figures(&h, 3 * MINUTE + 7, figures);
	ck_assert_uint_eq(n, 3);
	ck_assert_uint_eq(figures[0].age_usec, 3 * MINUTE + 7);
	ck_assert_uint_eq(figures[0].kind, LATENCY_READS);
	ck_assert(!figures[0].deleting);
	ck_assert_uint_eq(figures[0].count, 8);
	ck_assert_uint_eq(figures[1].age_usec, 2 * MINUTE + 7);
	ck_assert(figures[1].deleting);
	ck_assert_uint_eq(figures[2].age_usec, 7);
	ck_assert_uint_eq(figures[2].kind, LATENCY_SYNCS);
}
END_TEST

START_TEST(an_hour_later_they_are_gone)
{
	struct latency_hour h = { 0 };

	latency_hour_add(&h, 5 * MINUTE, LATENCY_READS, DELETING, 80, 1);
	ck_assert_uint_eq(latency_hour_figures(&h, 65 * MINUTE - 1, figures), 1);
	ck_assert_uint_eq(latency_hour_figures(&h, 65 * MINUTE, figures), 0);
	/* The place is another minute's. */
	latency_hour_add(&h, 65 * MINUTE, LATENCY_READS, DELETING, 80, 2);
	ck_assert_uint_eq(latency_hour_figures(&h, 65 * MINUTE, figures), 1);
	ck_assert_uint_eq(figures[0].count, 2);
}
END_TEST

START_TEST(shares_lie_between_bounds)
{
	struct latency_hour h = { 0 };

	/* 98 up to 1 ms, two up to 2.5 ms. */
	latency_hour_add(&h, 0, LATENCY_READS, DELETING, 700, 98);
	latency_hour_add(&h, 0, LATENCY_READS, DELETING, 2000, 2);
	ck_assert_uint_eq(latency_hour_figures(&h, 0, figures), 1);
	ck_assert_uint_eq(figures[0].half_usec, 500 + 500 * 50 / 98);
	ck_assert_uint_eq(figures[0].most_usec, 1000 + 1500 / 2);
	/* Of one alone both are its bound; above all bounds the last is all that is known. */
	latency_hour_add(&h, MINUTE, LATENCY_READS, DELETING, 700, 1);
	latency_hour_add(&h, 2 * MINUTE, LATENCY_READS, DELETING, 60 * USEC_PER_SEC, 1);
	ck_assert_uint_eq(latency_hour_figures(&h, 2 * MINUTE, figures), 3);
	ck_assert_uint_eq(figures[1].half_usec, 1000);
	ck_assert_uint_eq(figures[1].most_usec, 1000);
	ck_assert_uint_eq(figures[2].most_usec, 10 * USEC_PER_SEC);
}
END_TEST

START_TEST(hours_add_up)
{
	struct latency_hour a = { 0 }, b = { 0 };

	latency_hour_add(&a, 5 * MINUTE, LATENCY_READS, DELETING, 80, 1);
	latency_hour_add(&a, 6 * MINUTE, LATENCY_READS, DELETING, 80, UINT32_MAX);
	latency_hour_add(&b, 6 * MINUTE, LATENCY_READS, DELETING, 80, 2);
	latency_hour_add(&b, 65 * MINUTE, LATENCY_SYNCS, !DELETING, 80, 4);
	latency_hour_merge(&a, &b);
	ck_assert_uint_eq(latency_hour_figures(&a, 65 * MINUTE, figures), 2);
	ck_assert_uint_eq(figures[0].count, UINT32_MAX);
	ck_assert_uint_eq(figures[1].count, 4);
	/* What is older stays out. */
	latency_hour_merge(&b, &a);
	latency_hour_add(&a, 5 * MINUTE, LATENCY_READS, DELETING, 80, 1);
	latency_hour_merge(&b, &a);
	ck_assert_uint_eq(latency_hour_figures(&b, 65 * MINUTE, figures), 2);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { minutes_come_one_by_one, an_hour_later_they_are_gone,
				       shares_lie_between_bounds, hours_add_up };

	return run_case("latency-hour", tests, ELEMENTSOF(tests));
}
