/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Moving out and back (src/worker/move.h), with a rename that never replaces and without. */
#include "worker/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"
#include "base/fd.h"
#include "base/macros.h"

static char dir[64];
static int dirfd_;
static bool without; /* RENAME_NOREPLACE */
static void (*just_before)(void);

int __real_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);

int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	if (without) {
		errno = EINVAL;
		return -1;
	}
	return __real_renameat2(from_dir, from, to_dir, to, flags);
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	if (just_before)
		just_before();
	return __real_renameat(from_dir, from, to_dir, to);
}

static int out(bool always)
{
	return move_out(dirfd_, "tree", dirfd_, "1", always);
}

static int back(void)
{
	return move_back(dirfd_, "1", dirfd_, "tree");
}

static bool has(const char *name)
{
	return faccessat(dirfd_, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void set_up(void)
{
	scratch_make(dir, sizeof(dir));
	dirfd_ = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dirfd_, 0);
	ck_assert_int_eq(mkdirat(dirfd_, "tree", 0751), 0);
	file_make(dir, "tree/x", "precious");
	file_make(dir, "file", "precious");
	without = false;
	just_before = NULL;
}

static void tear_down(void)
{
	fd_closep(&dirfd_);
	scratch_remove(dir);
}

START_TEST(a_directory_goes_out_and_back)
{
	struct stat st;

	for (int i = 0; i < 2; i++) {
		without = i;
		ck_assert_int_eq(out(/* always= */ true), 0);
		ck_assert(!has("tree") && has("1/x"));
		ck_assert_int_eq(back(), 0);
		ck_assert(!has("1") && has("tree/x"));
		ck_assert_int_eq(fstatat(dirfd_, "tree", &st, 0), 0);
		ck_assert_uint_eq(st.st_mode & 07777, 0751);
	}
}
END_TEST

START_TEST(where_it_is_not_asked_for_it_stays)
{
	without = true;
	ck_assert_int_eq(out(/* always= */ false), -EINVAL);
	ck_assert(has("tree/x") && !has("1"));
}
END_TEST

START_TEST(a_file_stays)
{
	without = true;
	ck_assert_int_eq(move_out(dirfd_, "file", dirfd_, "1", /* always= */ true), -EINVAL);
	ck_assert_int_eq(move_back(dirfd_, "file", dirfd_, "1"), -EINVAL);
	ck_assert(has("file") && !has("1"));
}
END_TEST

START_TEST(what_is_not_there_is_not_moved)
{
	without = true;
	ck_assert_int_eq(move_out(dirfd_, "none", dirfd_, "1", /* always= */ true), -ENOENT);
	ck_assert(!has("1"));
}
END_TEST

/* What is in the place stays, be it empty. */
START_TEST(nothing_is_replaced)
{
	for (int i = 0; i < 2; i++) {
		without = i;
		ck_assert_int_eq(mkdirat(dirfd_, "1", 0700), 0);
		ck_assert_int_eq(out(/* always= */ true), -EEXIST);
		ck_assert_int_eq(unlinkat(dirfd_, "1", AT_REMOVEDIR), 0);
		file_make(dir, "1", "other");
		ck_assert_int_eq(out(/* always= */ true), -EEXIST);
		ck_assert(has("tree/x"));
		ck_assert_int_eq(unlinkat(dirfd_, "1", 0), 0);
	}
}
END_TEST

static void make_full_directory(void)
{
	ck_assert_int_eq(mkdirat(dirfd_, "tree", 0700), 0);
	file_make(dir, "tree/new", "other");
}

static void make_file(void)
{
	file_make(dir, "tree", "other");
}

static void make_link(void)
{
	ck_assert_int_eq(symlinkat("file", dirfd_, "tree"), 0);
}

/* By another process, after the look. */
START_TEST(nothing_is_replaced_that_comes_meanwhile)
{
	without = true;
	ck_assert_int_eq(out(/* always= */ true), 0);
	just_before = make_full_directory;
	ck_assert_int_eq(back(), -EEXIST);
	ck_assert(has("1/x") && has("tree/new"));
	ck_assert_int_eq(unlinkat(dirfd_, "tree/new", 0), 0);
	ck_assert_int_eq(unlinkat(dirfd_, "tree", AT_REMOVEDIR), 0);
	for (int i = 0; i < 2; i++) {
		just_before = i ? make_link : make_file;
		ck_assert_int_eq(back(), -EEXIST);
		ck_assert(has("1/x") && has("tree") && has("file"));
		ck_assert_int_eq(unlinkat(dirfd_, "tree", 0), 0);
	}
}
END_TEST

/* What was a directory, and is a file now, with another in its place. */
static void become_files(void)
{
	ck_assert_int_eq(unlinkat(dirfd_, "1/x", 0), 0);
	ck_assert_int_eq(unlinkat(dirfd_, "1", AT_REMOVEDIR), 0);
	file_make(dir, "1", "new");
	file_make(dir, "tree", "other");
}

START_TEST(a_file_never_replaces_a_file)
{
	without = true;
	ck_assert_int_eq(out(/* always= */ true), 0);
	just_before = become_files;
	ck_assert_int_eq(back(), -EEXIST);
	ck_assert(has("1") && has("tree"));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		a_directory_goes_out_and_back,
		where_it_is_not_asked_for_it_stays,
		a_file_stays,
		what_is_not_there_is_not_moved,
		nothing_is_replaced,
		nothing_is_replaced_that_comes_meanwhile,
		a_file_never_replaces_a_file,
	};
	TCase *tc = tcase_create("move");

	tcase_add_checked_fixture(tc, set_up, tear_down);
	return run_tests(suite_create("move"), tc, tests, ELEMENTSOF(tests));
}
