/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/context/held.h"

#include <errno.h>

#include "support.h"
#include "base/macros.h"

#define MOST 100000

struct one {
	struct held submit, user;
};

static int take(struct one *u, struct held *all, uid_t uid, uint64_t names)
{
	return held_add(&u->submit, &u->user, all, uid, names, names * 20, MOST);
}

START_TEST(test_attack_05_two_users_do_not_use_up_what_all_have)
{
	struct one greedy[8] = { 0 };
	struct held all = { 0 };

	/* Each takes name by name what it is given, and keeps it. */
	for (size_t i = 0; i < ELEMENTSOF(greedy); i++) {
		struct one *u = &greedy[i];
		uint64_t had;

		do
			had = u->user.names;
		while (take(u, &all, 1000 + (uid_t)i, 1) == 0);
		ck_assert_uint_gt(had, 0);
		ck_assert_uint_ge(had, HELD_LEAST);
		/* As many are left for the next one, nearly. */
		ck_assert_uint_le(had, 2 * MOST - all.names + 2);
		if (i == 0)
			ck_assert_uint_eq(had, MOST);
		if (i == 1)
			ck_assert_uint_ge(had, MOST / 2 - 1);
	}
	ck_assert_uint_lt(all.names, 2 * MOST);
	for (size_t i = 0; i < ELEMENTSOF(greedy); i++)
		held_give(&greedy[i].submit, &greedy[i].user, &all, 1000 + (uid_t)i);
	ck_assert_uint_eq(all.names, 0);
	ck_assert_uint_eq(all.bytes, 0);
}
END_TEST

START_TEST(test_attack_05_some_names_always_get_in)
{
	struct held all = { .names = 3 * MOST, .bytes = 3 * MOST * HELD_NAME_BYTES };
	struct one late = { 0 }, root = { 0 };

	ck_assert_int_eq(take(&late, &all, 1000, HELD_LEAST), 0);
	ck_assert_int_eq(take(&late, &all, 1000, 1), -ENFILE);
	ck_assert_int_eq(take(&root, &all, 0, MOST), 0);
	ck_assert_uint_eq(all.names, 3 * MOST + HELD_LEAST + 1);
	/* One name with a path as long as they can be. */
	late = (struct one){ 0 };
	ck_assert_int_eq(held_add(&late.submit, &late.user, &all, 1001, HELD_DIR_NAMES + 1,
				  4096 + 255, MOST),
			 0);
}
END_TEST

START_TEST(bytes_are_shared_like_names)
{
	struct held all = { .names = 1, .bytes = 2 * MOST * HELD_NAME_BYTES };
	struct one late = { 0 };

	ck_assert_int_eq(held_add(&late.submit, &late.user, &all, 1000, 1,
				  (HELD_LEAST + 1) * HELD_NAME_BYTES, MOST),
			 -ENFILE);
}
END_TEST

START_TEST(which_limit_it_is)
{
	struct one a = { 0 }, b = { 0 };
	struct held all = { 0 };

	ck_assert_int_eq(take(&a, &all, 1000, MOST + 1), -E2BIG);
	held_give(&a.submit, &a.user, &all, 1000);
	ck_assert_int_eq(take(&a, &all, 1000, MOST), 0);
	b.user = a.user;
	ck_assert_int_eq(take(&b, &all, 1000, 1), -EDQUOT);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { test_attack_05_two_users_do_not_use_up_what_all_have,
				 test_attack_05_some_names_always_get_in,
				 bytes_are_shared_like_names, which_limit_it_is };

	return run_case("held", tests, ELEMENTSOF(tests));
}
