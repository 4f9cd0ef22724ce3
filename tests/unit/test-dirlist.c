/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/dirlist.h"
#include "support.h"
#include "util/fd.h"

static void fill(const char *dir, int n)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY);
	char name[32];

	for (int i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "entry-%06d", i * 7919 % n);
		(void)close(openat(fd, name, O_CREAT | O_WRONLY, 0644));
	}
	(void)close(fd);
}

START_TEST(lists_everything_but_the_dots)
{
	_cleanup_close_ int fd = -1;
	struct dirlist l = { 0 };
	char dir[PATH_MAX];
	int64_t cookie = 0;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "d/ f ..x .hidden l>f");
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(dirlist_read(&l, fd, true, &cookie), 1);
	ck_assert_uint_eq(l.n, 5);
	for (size_t i = 0; i < l.n; i++)
		if (strcmp(dirlist_name(&l, &l.v[i]), "d") == 0)
			ck_assert_uint_eq(l.v[i].type, DT_DIR);
	dirlist_done(&l);
	scratch_remove(dir);
}
END_TEST

START_TEST(an_empty_allowance_means_small_chunks)
{
	_cleanup_close_ int fd = -1;
	_Atomic size_t allowance = 0;
	struct dirlist l = { .allowance = &allowance };
	char dir[PATH_MAX];
	int64_t cookie = 0;
	size_t total = 0, chunks = 0;
	int r;

	scratch_make(dir, sizeof(dir));
	fill(dir, 20000);
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	do {
		r = dirlist_read(&l, fd, false, &cookie);
		ck_assert_int_ge(r, 0);
		ck_assert_uint_le(l.arena_cap, DIRLIST_OWN);
		total += l.n;
		chunks++;
	} while (r == 0);
	ck_assert_uint_eq(total, 20000);
	ck_assert_uint_gt(chunks, 5);
	dirlist_done(&l);
	scratch_remove(dir);
}
END_TEST

START_TEST(what_is_borrowed_comes_back)
{
	_cleanup_close_ int fd = -1;
	_Atomic size_t allowance = MiB(4);
	struct dirlist l = { .allowance = &allowance };
	char dir[PATH_MAX];
	int64_t cookie = 0;

	scratch_make(dir, sizeof(dir));
	fill(dir, 20000);
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(dirlist_read(&l, fd, true, &cookie), 1);
	ck_assert_uint_eq(l.n, 20000);
	ck_assert_uint_lt(atomic_load(&allowance), MiB(4));
	dirlist_sort(&l, ORDER_ASCENDING);
	for (size_t i = 1; i < l.n; i++)
		ck_assert_uint_le(l.v[i - 1].ino, l.v[i].ino);
	dirlist_clear(&l);
	ck_assert_uint_eq(atomic_load(&allowance), MiB(4));
	dirlist_done(&l);
	scratch_remove(dir);
}
END_TEST

START_TEST(names_of_a_list_get_their_inodes)
{
	_cleanup_close_ int fd = -1;
	struct dirlist l = { 0 };
	char dir[PATH_MAX], name[32];
	struct identity id;

	scratch_make(dir, sizeof(dir));
	fill(dir, 1000);
	fd = open(dir, O_PATH | O_DIRECTORY);
	for (int i = 0; i < 1000; i += 3) {
		(void)snprintf(name, sizeof(name), "entry-%06d", i);
		ck_assert_int_eq(dirlist_add(&l, name, 0, DT_UNKNOWN), 0);
	}
	ck_assert_int_eq(dirlist_add(&l, "no such name", 0, DT_UNKNOWN), 0);
	dirlist_find_inodes(&l, fd, ORDER_ASCENDING);
	ck_assert_uint_eq(l.n, 335);
	ck_assert_str_eq(dirlist_name(&l, &l.v[0]), "no such name");
	ck_assert_uint_eq(l.v[0].ino, 0);
	for (size_t i = 1; i < l.n; i++) {
		ck_assert_uint_lt(l.v[i - 1].ino, l.v[i].ino);
		ck_assert_int_eq(fd_identity(fd, dirlist_name(&l, &l.v[i]), &id), 0);
		ck_assert_uint_eq(id.ino, l.v[i].ino);
	}
	dirlist_done(&l);
	scratch_remove(dir);
}
END_TEST

START_TEST(what_is_no_directory_is_an_error)
{
	_cleanup_close_ int fd = open("/dev/null", O_RDONLY);
	struct dirlist l = { 0 };
	int64_t cookie;

	ck_assert_int_eq(dirlist_read(&l, fd, true, &cookie), -ENOTDIR);
	dirlist_done(&l);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { lists_everything_but_the_dots,
				 an_empty_allowance_means_small_chunks, what_is_borrowed_comes_back,
				 names_of_a_list_get_their_inodes,
				 what_is_no_directory_is_an_error };

	return run_case("dirlist", tests, ELEMENTSOF(tests));
}
