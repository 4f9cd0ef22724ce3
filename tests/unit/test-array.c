/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "base/array.h"
#include "support.h"

START_TEST(array_add_keeps_what_was_there)
{
	uint64_t *v = NULL, *added;
	size_t n = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		added = array_add(&v, &n, sizeof(*v));
		ck_assert_ptr_nonnull(added);
		ck_assert_uint_eq(*added, 0);
		*added = i;
	}
	ck_assert_uint_eq(n, 1000);
	for (uint64_t i = 0; i < n; i++)
		ck_assert_uint_eq(v[i], i);
	free(v);
}
END_TEST

START_TEST(array_add_after_any_number_was_taken_off)
{
	for (size_t most = 0; most < 70; most++)
		for (size_t left = 0; left <= most; left++) {
			uint64_t *v = NULL;
			size_t n = 0;

			while (n < most)
				ck_assert_ptr_nonnull(array_add(&v, &n, sizeof(*v)));
			n = left;
			/* The address sanitizer sees a write past the end. */
			while (n < most + 3)
				memset(array_add(&v, &n, sizeof(*v)), 1, sizeof(*v));
			free(v);
		}
}
END_TEST

START_TEST(strings_end_with_null)
{
	char **v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < 40; i++) {
		ck_assert_int_eq(strings_add(&v, &n, strdup("text")), 0);
		ck_assert_uint_eq(n, i + 1);
		ck_assert_str_eq(v[i], "text");
		ck_assert_ptr_null(v[i + 1]);
	}
	ck_assert_int_eq(strings_add(&v, &n, NULL), -ENOMEM);
	ck_assert_uint_eq(n, 40);
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}
END_TEST

START_TEST(array_reserve_at_least_doubles)
{
	char *v = NULL;
	size_t cap = 0, grown = 0;

	for (size_t n = 1; n < 100000; n++) {
		size_t before = cap;

		ck_assert_int_eq(array_reserve(&v, &cap, n, 1), 0);
		ck_assert_uint_ge(cap, n);
		v[n - 1] = 'x';
		grown += cap != before;
	}
	ck_assert_uint_le(grown, 14);
	free(v);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { array_add_keeps_what_was_there,
				       array_add_after_any_number_was_taken_off,
				       strings_end_with_null, array_reserve_at_least_doubles };

	return run_case("array", tests, ELEMENTSOF(tests));
}
