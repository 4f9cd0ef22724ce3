/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How large the discards are that btrfs makes by itself, after what they cost. */
#include "base/macros.h"
#include "pacing/control/discard-limits.h"
#include "support.h"

/* As btrfs begins. */
static const struct discard_limits usual = { 1000, MiB(64) };

/* A disk that takes so long for each MiB, and 100 us for each discard, for so many rounds. */
static struct discard_limits rounds(unsigned n, const struct discard_limits *before,
				    uint64_t target_usec, uint64_t usec_per_mib)
{
	struct discard_limits l = discard_limits_first(before);

	while (n-- > 0)
		l = discard_limits_next(&l, before, target_usec, 50,
					50 * (100 + l.max_bytes * usec_per_mib / MiB(1)));
	return l;
}

START_TEST(begins_small)
{
	struct discard_limits l = discard_limits_first(&usual);

	ck_assert_uint_eq(l.max_bytes, MiB(1));
	ck_assert_uint_eq(l.iops, 100);
	/* Nowhere more than there was, which 0 does not bound. */
	l = discard_limits_first(&(struct discard_limits){ 5, KiB(128) });
	ck_assert_uint_eq(l.max_bytes, KiB(128));
	ck_assert_uint_eq(l.iops, 5);
	l = discard_limits_first(&(struct discard_limits){ 0, 0 });
	ck_assert_uint_eq(l.max_bytes, MiB(1));
	ck_assert_uint_eq(l.iops, 100);
}
END_TEST

START_TEST(size_follows_cost)
{
	/* 0.5 ms for each MiB: 2 ms are too little for 4 MiB. */
	struct discard_limits l = rounds(20, &usual, 2000, 500);

	ck_assert_uint_ge(l.max_bytes, MiB(1));
	ck_assert_uint_le(l.max_bytes, MiB(2));
	/* One for which a discard costs nothing: as before. */
	l = rounds(20, &usual, 2000, 0);
	ck_assert_uint_eq(l.max_bytes, MiB(64));
	/* One that is as slow as none: as small as btrfs makes them, and few. */
	l = rounds(20, &usual, 1000, 10000000);
	ck_assert_uint_eq(l.max_bytes, KiB(64));
	ck_assert_uint_eq(l.iops, 10);
}
END_TEST

START_TEST(share_of_time_is_bounded)
{
	for (uint64_t usec_per_mib = 100; usec_per_mib <= 20000; usec_per_mib += 300) {
		struct discard_limits l = rounds(20, &usual, 4000, usec_per_mib);
		uint64_t cost = 100 + l.max_bytes * usec_per_mib / MiB(1);

		ck_assert_uint_le(cost, 4000);
		/* What btrfs waits after each is within one of its ticks. */
		ck_assert_uint_le(l.iops * cost, USEC_PER_SEC / 4);
	}
}
END_TEST

START_TEST(never_above_what_was_set)
{
	const struct discard_limits before = { 20, MiB(2) }, unlimited = { 0, 0 };
	struct discard_limits l = rounds(20, &before, 100000, 1);

	ck_assert_uint_eq(l.iops, 20);
	ck_assert_uint_eq(l.max_bytes, MiB(2));
	l = rounds(20, &unlimited, 100000, 1);
	ck_assert_uint_eq(l.iops, 100);
	ck_assert_uint_eq(l.max_bytes, MiB(64));
}
END_TEST

START_TEST(too_few_tell_nothing)
{
	struct discard_limits l = discard_limits_first(&usual), next;

	next = discard_limits_next(&l, &usual, 1000, 3, 3 * USEC_PER_SEC);
	ck_assert_uint_eq(next.max_bytes, l.max_bytes);
	ck_assert_uint_eq(next.iops, l.iops);
	/* Without a target there is nothing to steer by. */
	next = discard_limits_next(&l, &usual, 0, 100, USEC_PER_SEC);
	ck_assert_uint_eq(next.max_bytes, l.max_bytes);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { begins_small, size_follows_cost, share_of_time_is_bounded,
				       never_above_what_was_set, too_few_tell_nothing };

	return run_case("discard-limits", tests, ELEMENTSOF(tests));
}
