/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What plan infers of a tree from some of its entries. */
#include "ctl/plan/sampler.h"

#include <stdlib.h>

#include "support.h"
#include "base/macros.h"

#define WHOLE 4096
#define WINDOW 400

/* A tree whose entries have 4 KiB, and every tenth 40 KiB; every third has further names. */
static struct sampler sample(uint64_t entries, uint64_t *ret_bytes)
{
	struct sampler s = { .whole = WHOLE, .window = WINDOW };

	*ret_bytes = 0;
	for (uint64_t i = 0; i < entries; i++) {
		uint64_t bytes = i % 10 == 0 ? KiB(40) : KiB(4);

		*ret_bytes += bytes;
		if (!sampler_next(&s))
			continue;
		sampler_examined(&s, bytes);
		sampler_add(&s, SAMPLE_LINKED_ENTRIES, i % 3 == 0);
	}
	return s;
}

START_TEST(sampler_is_exact_for_small_trees)
{
	uint64_t bytes;
	struct sampler s = sample(WHOLE, &bytes);

	ck_assert(sampler_exact(&s));
	ck_assert_uint_eq(sampler_total(&s, SAMPLE_BYTES), bytes);
	ck_assert_uint_eq(sampler_total(&s, SAMPLE_LINKED_ENTRIES), (WHOLE + 2) / 3);
	ck_assert_uint_eq(sampler_margin(&s), 0);
}
END_TEST

START_TEST(sampler_infers_large_trees_from_a_bounded_share)
{
	uint64_t bytes, total, of_windows = 1000000 / WINDOW * SAMPLE_RUN;
	struct sampler s = sample(WHOLE + 1000000, &bytes);

	ck_assert(!sampler_exact(&s));
	ck_assert_uint_eq(s.examined[0], WHOLE);
	ck_assert_uint_eq(s.examined[1], of_windows);
	total = sampler_total(&s, SAMPLE_BYTES);
	ck_assert_uint_lt(total > bytes ? total - bytes : bytes - total, bytes / 50);
	ck_assert_uint_gt(sampler_margin(&s), 0);
	ck_assert_uint_lt(sampler_margin(&s), bytes / 10);
	total = sampler_total(&s, SAMPLE_LINKED_ENTRIES);
	ck_assert_uint_gt(total, 320000);
	ck_assert_uint_lt(total, 350000);
}
END_TEST

START_TEST(sampler_gives_the_same_answer_again)
{
	uint64_t bytes;
	struct sampler a = sample(50000, &bytes), b = sample(50000, &bytes);

	ck_assert_uint_eq(sampler_total(&a, SAMPLE_BYTES), sampler_total(&b, SAMPLE_BYTES));
	ck_assert_uint_eq(sampler_margin(&a), sampler_margin(&b));
}
END_TEST

START_TEST(sampler_takes_a_remainder_without_a_run_for_what_came_before)
{
	struct sampler s = { .whole = 100, .window = WINDOW };

	for (int i = 0; i < 101; i++) {
		/* The one of the remainder could not be examined. */
		if (sampler_next(&s) && i < 100)
			sampler_examined(&s, KiB(4));
	}
	ck_assert_uint_eq(sampler_total(&s, SAMPLE_BYTES), 101 * KiB(4));
	ck_assert_uint_eq(sampler_margin(&s), 0);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { sampler_is_exact_for_small_trees,
				 sampler_infers_large_trees_from_a_bounded_share,
				 sampler_gives_the_same_answer_again,
				 sampler_takes_a_remainder_without_a_run_for_what_came_before };

	return run_case("sampler", tests, ELEMENTSOF(tests));
}
