/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <unistd.h>

#include "engine/walk/anchors.h"
#include "support.h"
#include "base/macros.h"

/* Climbs `gap` levels with `slots` descriptors as the walker does; counts the levels opened. */
static uint64_t climb(uint64_t gap, size_t slots)
{
	uint64_t at[64] = { 0 }, opened = 0;
	size_t n = 1;

	for (uint64_t level = gap; level > 0; level--) {
		while (n > 0 && at[n - 1] > level)
			n--;
		while (at[n - 1] < level) {
			uint64_t stride = anchors_stride(level - at[n - 1], slots + 1 - n);

			ck_assert_uint_ge(stride, 1);
			ck_assert_uint_le(stride, level - at[n - 1]);
			at[n] = at[n - 1] + stride;
			opened += stride;
			ck_assert_uint_le(++n, slots + 1);
		}
	}
	return opened;
}

START_TEST(a_climb_is_linear_in_its_height)
{
	/* C(30 + 4, 30) = 46,376: four to five visits are enough for each of these. */
	ck_assert_uint_le(climb(1000, 30), 1000 * 3);
	ck_assert_uint_le(climb(40000, 30), 40000 * 5);
	/* Even eight descriptors come nowhere near the square. */
	ck_assert_uint_le(climb(20000, 8), 20000 * 12);
	ck_assert_uint_eq(climb(1, 2), 1);
}
END_TEST

static size_t dropped;

static bool drop(void *userdata, const struct anchor *v)
{
	ck_assert(!v->borrowed);
	dropped++;
	return !userdata; /* else it has to stay */
}

START_TEST(thinning_keeps_the_first_and_the_last)
{
	struct anchors a = { 0 };

	ck_assert_int_eq(anchors_init(&a, 24), 0);
	dropped = 0;
	for (uint64_t level = 0; level < 5000; level++) {
		if (a.n == a.max)
			anchors_thin(&a, drop, NULL);
		ck_assert_uint_lt(a.n, a.max);
		anchors_push(&a, level, level * 10, level == 0 ? 0 : open("/dev/null", O_RDONLY),
			     level == 0);
	}
	ck_assert_uint_gt(dropped, 4000);
	ck_assert_int_eq(anchors_fd(&a, 0), 0);
	ck_assert_int_ge(anchors_fd(&a, 4999), 0);
	ck_assert_int_ge(anchors_fd(&a, 4998), 0);
	ck_assert_int_eq(anchors_fd(&a, 1), -1);
	for (size_t i = 1; i < a.n; i++)
		ck_assert_uint_gt(a.v[i].level, a.v[i - 1].level);
	anchors_done(&a);
	ck_assert_int_eq(fcntl(0, F_GETFD) < 0, 0); /* borrowed: not closed */
}
END_TEST

START_TEST(what_has_to_stay_stays_open)
{
	struct anchors a = { 0 };
	bool stays = true;

	ck_assert_int_eq(anchors_init(&a, 24), 0);
	for (uint64_t level = 0; level < 24; level++)
		anchors_push(&a, level, level, open("/dev/null", O_RDONLY), false);
	anchors_thin(&a, drop, &stays);
	ck_assert_uint_eq(a.n, a.max);
	for (uint64_t level = 0; level < 24; level++)
		ck_assert_int_ge(fcntl(anchors_fd(&a, level), F_GETFD), 0);
	anchors_thin(&a, drop, NULL);
	ck_assert_uint_lt(a.n, a.max);
	anchors_done(&a);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { a_climb_is_linear_in_its_height, what_has_to_stay_stays_open,
				 thinning_keeps_the_first_and_the_last };

	return run_case("anchors", tests, ELEMENTSOF(tests));
}
