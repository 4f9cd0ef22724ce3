/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Users by name and number. */
#include <errno.h>

#include "policy/scan/owners.h"
#include "support.h"
#include "base/macros.h"

START_TEST(owners_are_found_by_name_and_number)
{
	char *names[] = { (char *)"root", (char *)"1000", (char *)"4294967294", NULL };
	struct owners o = { 0 };
	const char *unknown = NULL;

	ck_assert_int_eq(owners_find(&o, names, &unknown), 0);
	ck_assert_uint_eq(o.n, 3);
	ck_assert(owners_have(&o, 0));
	ck_assert(owners_have(&o, 1000));
	ck_assert(owners_have(&o, 4294967294));
	ck_assert(!owners_have(&o, 1));
	ck_assert_ptr_null(unknown);
	owners_done(&o);
	ck_assert(!owners_have(&o, 0));
}
END_TEST

/* One that is not known must not become none: there would be nothing that it has kept. */
START_TEST(unknown_owners_are_an_error)
{
	static const char *const bad[] = { "no-such-user", "4294967295", "99999999999999999999",
					   "" };

	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		char *names[] = { (char *)"root", (char *)bad[i], NULL };
		struct owners o = { 0 };
		const char *unknown = NULL;

		ck_assert_int_eq(owners_find(&o, names, &unknown), -ESRCH);
		ck_assert_ptr_eq(unknown, bad[i]);
		ck_assert_uint_eq(o.n, 0);
	}
}
END_TEST

START_TEST(without_names_there_are_none)
{
	struct owners o = { 0 };

	ck_assert_int_eq(owners_find(&o, NULL, &(const char *){ NULL }), 0);
	ck_assert_uint_eq(o.n, 0);
	owners_done(&o);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { owners_are_found_by_name_and_number, unknown_owners_are_an_error,
				 without_names_there_are_none };

	return run_case("owners", tests, ELEMENTSOF(tests));
}
