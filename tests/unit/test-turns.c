/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pacing/turns.h"

#include "support.h"
#include "base/macros.h"

START_TEST(first_come_first_served)
{
	struct turns t = { 0 };
	struct turn a, b;

	turns_enter(&t, &a);
	turns_enter(&t, &b);
	/* As long as both have work, they alternate. */
	for (int i = 0; i < 10; i++) {
		ck_assert(turns_is_first(&t, i % 2 ? &b : &a));
		ck_assert(!turns_is_first(&t, i % 2 ? &a : &b));
		ck_assert(turns_leave(&t, i % 2 ? &b : &a));
		turns_enter(&t, i % 2 ? &b : &a);
	}
}
END_TEST

START_TEST(whoever_gives_up_is_not_waited_for)
{
	struct turns t = { 0 };
	struct turn a, b, c;

	turns_enter(&t, &a);
	turns_enter(&t, &b);
	turns_enter(&t, &c);
	ck_assert(!turns_leave(&t, &b));
	ck_assert(turns_leave(&t, &a));
	ck_assert(turns_is_first(&t, &c));
	ck_assert(!turns_leave(&t, &c));
	turns_enter(&t, &a);
	ck_assert(turns_is_first(&t, &a));
}
END_TEST

int main(void)
{
	const TTest *tests[] = { first_come_first_served, whoever_gives_up_is_not_waited_for };

	return run_case("turns", tests, ELEMENTSOF(tests));
}
