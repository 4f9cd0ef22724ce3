/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is known of a tree is known for a moment, and of that one alone. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/guard/still-inside.h"
#include "support.h"
#include "base/fd.h"
#include "base/macros.h"

#define HOUR (3600 * USEC_PER_SEC)

static char dir[PATH_MAX];
static struct tree_look *look;
static int top, other;

static void begin(void)
{
	char path[PATH_MAX + 16];

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "t/ t/a/ out/ out/u/");
	look = tree_look_new();
	ck_assert_ptr_nonnull(look);
	top = open(dir, O_PATH | O_DIRECTORY);
	(void)snprintf(path, sizeof(path), "%s/out", dir);
	other = open(path, O_PATH | O_DIRECTORY);
}

static void end(void)
{
	fd_closep(&top);
	fd_closep(&other);
	look = tree_look_free(look);
	scratch_remove(dir);
}

START_TEST(a_look_holds_for_a_moment)
{
	uint64_t now = now_usec();

	begin();
	ck_assert(tree_look_has(look, now, top, "t"));
	ck_assert_int_eq(renameat(top, "t", other, "t"), 0);
	/* Nothing is asked. */
	ck_assert(tree_look_has(look, now, top, "t"));
	ck_assert(tree_look_has(look, now + 1000, top, "t"));
	ck_assert(!tree_look_has(look, now + HOUR, top, "t"));
	/* That it was there is not remembered any more, nor that it was not. */
	ck_assert(!tree_look_has(look, now, top, "t"));
	ck_assert_int_eq(renameat(other, "t", top, "t"), 0);
	ck_assert(tree_look_has(look, now + HOUR, top, "t"));
	end();
}
END_TEST

START_TEST(a_look_holds_for_one_tree)
{
	uint64_t now = now_usec();

	begin();
	ck_assert(tree_look_has(look, now, top, "t"));
	ck_assert(!tree_look_has(look, now, top, "u"));
	ck_assert(!tree_look_has(look, now, other, "t"));
	ck_assert(tree_look_has(look, now, other, "u"));
	ck_assert(!tree_look_has(look, now, top, "u"));
	ck_assert(tree_look_has(look, now, top, "t"));
	end();
}
END_TEST

/* This kernel knows at once what has been moved here, whatever was seen a moment ago. */
START_TEST(what_is_moved_here_is_seen_at_once)
{
	_cleanup_close_ int a = -1;

	begin();
	a = openat(top, "t/a", O_PATH | O_DIRECTORY);
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(still_inside(look, top, "t", a), 1);
		ck_assert_int_eq(renameat(top, "t/a", other, "a"), 0);
		ck_assert_int_eq(still_inside(look, top, "t", a), 0);
		ck_assert_int_eq(renameat(other, "a", top, "t/a"), 0);
		ck_assert_int_eq(renameat(top, "t", other, "t"), 0);
		ck_assert_int_eq(still_inside(look, top, "t", a), 0);
		ck_assert_int_eq(renameat(other, "t", top, "t"), 0);
	}
	end();
}
END_TEST

int main(void)
{
	const TTest *tests[] = { a_look_holds_for_a_moment, a_look_holds_for_one_tree,
				 what_is_moved_here_is_seen_at_once };

	return run_case("still-inside", tests, ELEMENTSOF(tests));
}
