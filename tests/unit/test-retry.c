/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What fails for the moment is retried: at once, later, and never given up. */
#include <check.h>
#include <errno.h>

#include "daemon/jobs/retry.h"
#include "support.h"
#include "base/macros.h"

START_TEST(at_once_at_first)
{
	ck_assert_uint_eq(retry_after_usec(0), 0);
	ck_assert_uint_eq(retry_after_usec(2), 0);
	ck_assert_uint_eq(retry_after_usec(3), USEC_PER_SEC);
}
END_TEST

START_TEST(less_and_less_often)
{
	uint64_t before = 0;

	ck_assert_uint_eq(retry_after_usec(4), 2 * USEC_PER_SEC);
	ck_assert_uint_eq(retry_after_usec(11), 256 * USEC_PER_SEC);
	ck_assert_uint_eq(retry_after_usec(12), 300 * USEC_PER_SEC);
	ck_assert_uint_eq(retry_after_usec(UINT32_MAX), 300 * USEC_PER_SEC);
	for (unsigned i = 0; i < 100; i++) {
		ck_assert_uint_ge(retry_after_usec(i), before);
		before = retry_after_usec(i);
	}
}
END_TEST

START_TEST(not_what_only_a_person_can_help)
{
	ck_assert(retry_helps(-EPIPE) && retry_helps(-ENOMEM) && retry_helps(-EMFILE));
	ck_assert(!retry_helps(-ENODEV) && !retry_helps(-EEXIST) && !retry_helps(-ESTALE));
	ck_assert(!retry_helps(-EIO) && !retry_helps(0));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("retry");
	TCase *tc = tcase_create("retry");
	const TTest *const tests[] = {
		at_once_at_first,
		less_and_less_often,
		not_what_only_a_person_can_help,
	};

	return run_tests(s, tc, tests, ELEMENTSOF(tests));
}
