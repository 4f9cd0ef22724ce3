/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When speed wins over latency. */
#include <check.h>

#include "config/config.h"
#include "policy/urgency.h"
#include "support.h"
#include "base/macros.h"

START_TEST(space_has_two_marks)
{
	const struct policy_space below = { .is_share = true, .share = 0.05 },
				  until = { .bytes = 100 };
	struct space s = { .free = 50, .all = 1000 };

	ck_assert(!urgency_space(&below, &until, &s, false));
	s.free = 49;
	ck_assert(urgency_space(&below, &until, &s, false));
	s.free = 99;
	ck_assert(urgency_space(&below, &until, &s, true));
	ck_assert(!urgency_space(&below, &until, &s, false));
	s.free = 100;
	ck_assert(!urgency_space(&below, &until, &s, true));
}
END_TEST

START_TEST(space_is_near_at_twice_the_mark)
{
	const struct policy_space below = { .bytes = 100 };
	struct space s = { .free = 199, .all = 1000 };

	ck_assert(urgency_is_near(&below, &s));
	s.free = 200;
	ck_assert(!urgency_is_near(&below, &s));
	s.free = UINT64_MAX;
	ck_assert(!urgency_is_near(&below, &s));
}
END_TEST

static uint64_t look_usec(const struct policy_space *below, const struct space *s, uint64_t rate)
{
	return urgency_look_usec(below, s, rate, URGENCY_BYTES_MOST);
}

START_TEST(looks_come_closer_as_the_mark_does)
{
	const struct policy_space below = { .bytes = 1ULL << 30 };
	struct space s = { .all = 1ULL << 50 };
	/* Free space in GiB, and seconds. */
	static const uint64_t rows[][2] = { { 0, 1 },   { 1, 1 },    { 2, 1 },        { 5, 2 },
					    { 41, 20 }, { 121, 60 }, { 1U << 20, 60 } };

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		s.free = rows[i][0] << 30;
		ck_assert_uint_eq(look_usec(&below, &s, 0), rows[i][1] * USEC_PER_SEC);
	}
	/* 1 GiB is left: a program that writes a GiB in a second has half of it in a half. */
	s.free = 2ULL << 30;
	ck_assert_uint_eq(look_usec(&below, &s, 1ULL << 30), USEC_PER_SEC / 2);
	ck_assert_uint_eq(look_usec(&below, &s, 1ULL << 28), USEC_PER_SEC);
	ck_assert_uint_eq(look_usec(&below, &s, UINT64_MAX), USEC_PER_SEC / 10);
	s.free = 41ULL << 30;
	ck_assert_uint_eq(look_usec(&below, &s, 1ULL << 30), 20 * USEC_PER_SEC);
	ck_assert_uint_eq(look_usec(&below, &s, 4ULL << 30), 5 * USEC_PER_SEC);
}
END_TEST

START_TEST(time_presses_when_the_rate_does_not_do)
{
	struct course c = { .begun_usec = 1000, .now_usec = 2000, .done = 10, .all = 20 };

	/* Another 1000 are needed; a tenth is added. */
	c.by_usec = 3101;
	ck_assert(!urgency_presses(&c));
	c.by_usec = 3099;
	ck_assert(urgency_presses(&c));
	ck_assert_uint_eq(urgency_ends_usec(&c), 3000);
}
END_TEST

START_TEST(half_of_the_time_is_for_foreign_io_when_nothing_is_known)
{
	struct course c = { .begun_usec = 1000, .now_usec = 1499, .by_usec = 2000 };

	ck_assert(!urgency_presses(&c));
	c.now_usec = 1500;
	ck_assert(urgency_presses(&c));
	ck_assert_uint_eq(urgency_ends_usec(&c), UINT64_MAX);
	c.now_usec = 2001; /* too late */
	ck_assert(urgency_presses(&c));
}
END_TEST

START_TEST(figures_that_make_no_sense_do_no_harm)
{
	struct course c = {
		.now_usec = UINT64_MAX / 2, .by_usec = UINT64_MAX, .done = 1, .all = UINT64_MAX
	};

	ck_assert(urgency_presses(&c));
	ck_assert_uint_eq(urgency_ends_usec(&c), UINT64_MAX);
	c.done = 30; /* more than there was */
	c.all = 20;
	ck_assert(!urgency_presses(&c));
	ck_assert_uint_eq(urgency_ends_usec(&c), c.now_usec);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		space_has_two_marks,
		space_is_near_at_twice_the_mark,
		looks_come_closer_as_the_mark_does,
		time_presses_when_the_rate_does_not_do,
		half_of_the_time_is_for_foreign_io_when_nothing_is_known,
		figures_that_make_no_sense_do_no_harm,
	};

	return run_case("urgency", tests, ELEMENTSOF(tests));
}
