/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Slices of directories: what each host takes of one, the same on all of them. */
#include <stdio.h>

#include "engine/core/name-slice.h"
#include "support.h"
#include "base/macros.h"

/* The 64-bit FNV-1a of "", "a" and "foobar" is in its authors' test vectors; folded by hand. */
START_TEST(the_hash_is_the_known_one)
{
	ck_assert_uint_eq(name_hash(""), 0xcbf29ce4U ^ 0x84222325U);
	ck_assert_uint_eq(name_hash("a"), 0xaf63dc4cU ^ 0x8601ec8cU);
	ck_assert_uint_eq(name_hash("foobar"), 0x85944171U ^ 0xf73967e8U);
}
END_TEST

/* Each of many names is in one of these slices, and if they are alike, none has more than twice its
 * part. */
static void each_in_one(const struct name_slice *v, size_t n_slices, bool alike)
{
	size_t n = 10000, counts[64] = { 0 };
	char name[32];

	for (size_t i = 0; i < n; i++) {
		size_t in = 0;

		(void)snprintf(name, sizeof(name), "file-%06zu.dat", i);
		for (size_t k = 0; k < n_slices; k++) {
			bool has = name_slice_has(&v[k], name);

			in += has;
			counts[k] += has;
		}
		ck_assert_uint_eq(in, 1);
	}
	for (size_t k = 0; alike && k < n_slices; k++) {
		ck_assert_uint_gt(counts[k], n / n_slices / 2);
		ck_assert_uint_lt(counts[k], n / n_slices * 2);
	}
}

/* Cuts v[0] into so many parts, which are all given away. Returns how many slices there are. */
static size_t cut(struct name_slice *v, size_t n, unsigned parts)
{
	ck_assert_int_eq(name_slice_cut(&v[0], parts), 0);
	for (unsigned i = 1; i < parts; i++) {
		v[n++] = name_slice_next(&v[0]);
		v[0].gone++;
	}
	return n;
}

START_TEST(each_name_is_in_one_slice)
{
	for (unsigned parts = 2; parts < 8; parts++) {
		struct name_slice v[64] = { { 0 } };

		each_in_one(v, cut(v, 1, parts), /* alike= */ true);
	}
}
END_TEST

START_TEST(a_slice_can_be_cut_again)
{
	struct name_slice v[64] = { { 0 } };
	size_t n = cut(v, 1, 3);
	struct name_slice again[64] = { v[2] };

	n = cut(v, n, 4);
	each_in_one(v, n, /* alike= */ false);
	/* What was given is cut by the host that has it. */
	(void)cut(again, 1, 5);
	v[2] = again[0];
	for (size_t i = 1; i < 5; i++)
		v[n++] = again[i];
	each_in_one(v, n, /* alike= */ false);
}
END_TEST

START_TEST(what_is_not_taken_stays)
{
	struct name_slice s = { 0 }, v[3];

	ck_assert_int_eq(name_slice_cut(&s, 4), 0);
	ck_assert(name_slice_has(&s, "a") && name_slice_has(&s, "b") && name_slice_has(&s, "c"));
	v[1] = name_slice_next(&s);
	s.gone++;
	v[2] = name_slice_next(&s);
	s.gone++;
	v[0] = s;
	/* Parts 0 and 3 are one host's; it cannot cut those any more. */
	for (int i = 0; i < 1000; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "%d", i);
		ck_assert_int_eq(name_slice_has(&v[0], name) + name_slice_has(&v[1], name) +
					 name_slice_has(&v[2], name),
				 1);
	}
	ck_assert_int_eq(name_slice_cut(&s, 2), -EBUSY);
}
END_TEST

START_TEST(there_are_never_too_many)
{
	struct name_slice s = { .slice = 5, .slices = 2048 };

	ck_assert_int_eq(name_slice_cut(&s, 3), -E2BIG);
	ck_assert_int_eq(name_slice_cut(&s, 2), 0);
	ck_assert_uint_eq(name_slice_next(&s).slice, 5 + 2048);
	ck_assert_uint_eq(name_slice_next(&s).slices, 4096);
	s.gone++;
	ck_assert_int_eq(name_slice_cut(&s, 2), -E2BIG);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { the_hash_is_the_known_one, each_name_is_in_one_slice,
				 a_slice_can_be_cut_again, what_is_not_taken_stays,
				 there_are_never_too_many };

	return run_case("name-slice", tests, ELEMENTSOF(tests));
}
