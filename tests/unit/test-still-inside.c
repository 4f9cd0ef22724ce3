/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is known of a tree is known for a moment, and of that one alone. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/guard/still-inside.h"
#include "support.h"
#include "base/fd.h"
#include "base/macros.h"

#define HOUR (3600 * USEC_PER_SEC)

static char dir[PATH_MAX];
static struct tree_look *look;
static int top, other;

/* Then the next look at the tree does not end before goes_on, as one that waits for a server. */
static atomic_bool hang;
static sem_t hangs, goes_on;

/* Then a server says of each open directory that it has a name. */
static atomic_bool late;

int __real_statx(int dirfd, const char *restrict path, int flags, unsigned mask,
		 struct statx *restrict sx);
int __wrap_statx(int dirfd, const char *restrict path, int flags, unsigned mask,
		 struct statx *restrict sx);

int __wrap_statx(int dirfd, const char *restrict path, int flags, unsigned mask,
		 struct statx *restrict sx)
{
	if (strcmp(path, "t") == 0 && atomic_exchange(&hang, false)) {
		(void)sem_post(&hangs);
		while (sem_wait(&goes_on) < 0)
			;
	}
	if (__real_statx(dirfd, path, flags, mask, sx) < 0)
		return -1;
	if (path[0] == '\0' && atomic_load(&late))
		sx->stx_nlink = 2;
	return 0;
}

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

/* As MooseFS, for a moment. */
START_TEST(what_is_removed_here_is_gone_whatever_a_server_says)
{
	_cleanup_close_ int a = -1;

	begin();
	for (int i = 0; i < 4; i++) {
		bool has_tree = i % 2 == 0;

		atomic_store(&late, i >= 2);
		a = openat(top, "t/a", O_PATH | O_DIRECTORY);
		ck_assert_int_ge(a, 0);
		ck_assert_int_eq(unlinkat(top, "t/a", AT_REMOVEDIR), 0);
		if (!has_tree)
			ck_assert_int_eq(unlinkat(top, "t", AT_REMOVEDIR), 0);
		ck_assert_int_eq(still_inside(NULL, top, "t", a), 1);
		fd_closep(&a);
		if (!has_tree)
			ck_assert_int_eq(mkdirat(top, "t", 0755), 0);
		ck_assert_int_eq(mkdirat(top, "t/a", 0755), 0);
	}
	/* One that is empty is not gone. */
	a = openat(top, "t/a", O_PATH | O_DIRECTORY);
	ck_assert_int_eq(renameat(top, "t/a", other, "a"), 0);
	ck_assert_int_eq(still_inside(NULL, top, "t", a), 0);
	atomic_store(&late, false);
	end();
}
END_TEST

#define MSEC USEC_PER_MSEC
#define QUICK (20 * MSEC) /* a look holds ten times as long as it took */

/* It is seen at that time. */
static uint64_t look_quickly(void)
{
	for (int i = 0; i < 100; i++) {
		uint64_t now = now_usec();

		ck_assert(tree_look_has(look, now, top, "t"));
		if (now_usec() - now <= QUICK)
			return now;
		look = tree_look_free(look);
		look = tree_look_new();
		ck_assert_ptr_nonnull(look);
	}
	ck_abort_msg("no look of a hundred has taken less than 20 ms");
}

static void *look_that_hangs(void *userdata)
{
	uint64_t *now = userdata;

	return tree_look_has(look, *now, top, "t") ? look : NULL;
}

START_TEST(while_one_looks_a_look_holds_for_a_second_more)
{
	uint64_t seen, later;
	pthread_t lane;
	void *there;

	begin();
	ck_assert_int_eq(sem_init(&hangs, 0, 0), 0);
	ck_assert_int_eq(sem_init(&goes_on, 0, 0), 0);
	seen = look_quickly();
	later = seen + 500 * MSEC;
	atomic_store(&hang, true);
	ck_assert_int_eq(pthread_create(&lane, NULL, look_that_hangs, &later), 0);
	while (sem_wait(&hangs) < 0)
		;
	ck_assert_int_eq(renameat(top, "t", other, "t"), 0);
	/* Nothing is asked. */
	ck_assert(tree_look_has(look, later, top, "t"));
	ck_assert(tree_look_has(look, later + 100 * MSEC, top, "t"));
	/* No lane waits for a server that does not answer. What this one has found holds for all.
	 */
	ck_assert(!tree_look_has(look, seen + 2 * USEC_PER_SEC, top, "t"));
	ck_assert(!tree_look_has(look, later, top, "t"));
	(void)sem_post(&goes_on);
	ck_assert_int_eq(pthread_join(lane, &there), 0);
	ck_assert_ptr_null(there);
	ck_assert(!tree_look_has(look, later, top, "t"));
	(void)sem_destroy(&hangs);
	(void)sem_destroy(&goes_on);
	end();
}
END_TEST

int main(void)
{
	const TTest *tests[] = { a_look_holds_for_a_moment, a_look_holds_for_one_tree,
				 what_is_moved_here_is_seen_at_once,
				 what_is_removed_here_is_gone_whatever_a_server_says,
				 while_one_looks_a_look_holds_for_a_second_more };

	return run_case("still-inside", tests, ELEMENTSOF(tests));
}
