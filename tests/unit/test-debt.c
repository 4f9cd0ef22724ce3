/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Steps that pay the debt: when they may begin, and how large they become. */
#include "pacing/control/controller-state.h"
#include "support.h"
#include "world.h"

#define NOW (1000 * MSEC)

/* Foreign I/O, and syncs that take 20 ms without us: a step may take 10. */
static struct controller paced(void)
{
	struct controller_options o = { .observed = true, .presumed_busy = true };
	struct controller c;

	controller_init(&c, &o, NOW);
	c.mode = PACING_PACED;
	c.gap = false;
	window_add(&c.canaries, PACING_CANARIES, 20 * MSEC);
	return c;
}

/* So many steps, each of which takes `cost_usec`; the last but one says how large they are. */
static uint64_t steps(struct controller *c, unsigned n, uint64_t cost_usec)
{
	uint64_t now = NOW, bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		struct pacing_grant g = controller_debt_next(c, now);

		ck_assert_uint_ne(g.not_before_usec, PACING_UNLIMITED);
		now = g.not_before_usec + cost_usec;
		bytes = g.bytes;
		controller_begin(c);
		controller_debt_spent(c, now, bytes, cost_usec);
	}
	return bytes;
}

START_TEST(steps_rest)
{
	struct controller c = paced();
	struct pacing_grant g = controller_debt_next(&c, NOW);

	ck_assert_uint_eq(g.not_before_usec, NOW);
	controller_begin(&c);
	controller_debt_spent(&c, NOW + 8 * MSEC, g.bytes, 8 * MSEC);
	g = controller_debt_next(&c, NOW + 8 * MSEC);
	ck_assert_uint_ge(g.not_before_usec, NOW + 16 * MSEC);
	ck_assert_uint_eq(c.outstanding, 0);
}
END_TEST

/* What wrote nothing has cost no other request anything. */
START_TEST(nothing_written_needs_no_rest)
{
	struct controller c = paced();

	controller_begin(&c);
	controller_debt_spent(&c, NOW, 0, 100);
	ck_assert_uint_eq(controller_debt_next(&c, NOW).not_before_usec, NOW);
}
END_TEST

START_TEST(expensive_steps_become_smaller)
{
	struct controller c = paced();
	uint64_t first = controller_debt_next(&c, NOW).bytes;

	ck_assert_uint_lt(steps(&c, 20, 40 * MSEC), first);
	ck_assert_uint_ge(steps(&c, 500, 40 * MSEC), KiB(4));
}
END_TEST

START_TEST(cheap_steps_become_larger)
{
	struct controller c = paced();
	uint64_t first = controller_debt_next(&c, NOW).bytes;

	ck_assert_uint_gt(steps(&c, 20, 1 * MSEC), first);
	ck_assert_uint_le(steps(&c, 500, 1 * MSEC), MiB(1));
}
END_TEST

START_TEST(as_expensive_as_they_may_be_they_stay)
{
	struct controller c = paced();
	uint64_t first = controller_debt_next(&c, NOW).bytes;

	ck_assert_uint_eq(steps(&c, 100, 8 * MSEC), first);
}
END_TEST

/* A gap shows the device without us. */
START_TEST(none_in_a_gap_or_a_check)
{
	struct controller c = paced();

	c.gap = true;
	ck_assert_uint_eq(controller_debt_next(&c, NOW).not_before_usec, PACING_UNLIMITED);
	c.gap = false;
	c.mode = PACING_CHECK;
	ck_assert_uint_eq(controller_debt_next(&c, NOW).not_before_usec, PACING_UNLIMITED);
}
END_TEST

START_TEST(without_foreign_io_they_are_large_and_do_not_rest)
{
	struct controller c = paced();

	c.mode = PACING_FAST;
	ck_assert_uint_ge(controller_debt_next(&c, NOW).bytes, MiB(1));
	controller_begin(&c);
	controller_debt_spent(&c, NOW + 50 * MSEC, MiB(4), 50 * MSEC);
	ck_assert_uint_eq(controller_debt_next(&c, NOW + 50 * MSEC).not_before_usec,
			  NOW + 50 * MSEC);
	c.mode = PACING_PACED;
	c.urgent = true;
	ck_assert_uint_ge(controller_debt_next(&c, NOW).bytes, MiB(1));
}
END_TEST

/* What quanta may be is found from quanta alone. */
START_TEST(they_teach_nothing_about_quanta)
{
	struct controller c = paced();
	struct quantum_size entries = c.entries, bytes = c.bytes;

	(void)steps(&c, 50, 100 * MSEC);
	ck_assert_uint_eq(c.entries.limit, entries.limit);
	ck_assert_uint_eq(c.bytes.limit, bytes.limit);
	ck_assert_uint_eq(c.costs.n, 0);
	ck_assert_uint_eq(c.not_before_usec, paced().not_before_usec);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		steps_rest,
		nothing_written_needs_no_rest,
		expensive_steps_become_smaller,
		cheap_steps_become_larger,
		as_expensive_as_they_may_be_they_stay,
		none_in_a_gap_or_a_check,
		without_foreign_io_they_are_large_and_do_not_rest,
		they_teach_nothing_about_quanta,
	};

	return run_case("debt", tests, ELEMENTSOF(tests));
}
