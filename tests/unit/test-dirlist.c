/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/dirlist.h"
#include "engine/core/slice.h"
#include "support.h"
#include "base/fd.h"

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
	ck_assert_int_eq(dirlist_read(&l, fd, true, NULL, &cookie), 1);
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
		r = dirlist_read(&l, fd, false, NULL, &cookie);
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
	ck_assert_int_eq(dirlist_read(&l, fd, true, NULL, &cookie), 1);
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

/* A pace that counts, and stops it after so many slices. */
struct counted {
	uint64_t entries; /* of each slice */
	unsigned begun, most;
};

static bool count_begin(void *userdata, const _Atomic bool *cancelled, struct pace_budget *ret)
{
	struct counted *c = userdata;

	(void)cancelled;
	if (c->begun >= c->most)
		return false;
	c->begun++;
	*ret = (struct pace_budget){ c->entries, UINT64_MAX };
	return true;
}

static bool count_spent(void *userdata, uint64_t entries, uint64_t bytes, uint64_t cost_usec)
{
	(void)userdata;
	(void)bytes;
	(void)cost_usec;
	ck_assert_uint_eq(entries, 0);
	return false;
}

/* Lists a directory of a thousand; returns how many of them it saw. */
static size_t list_counted(struct counted *c, int *ret)
{
	const struct pace pace = { .begin = count_begin, .spent = count_spent, .userdata = c };
	_Atomic bool cancelled = false;
	_cleanup_close_ int fd = -1;
	struct dirlist l = { 0 };
	struct slice slice;
	char dir[PATH_MAX];
	int64_t cookie = 0;
	size_t n;

	scratch_make(dir, sizeof(dir));
	fill(dir, 1000);
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	slice_init(&slice, &pace, &cancelled, fd);
	ck_assert_int_eq(slice_open(&slice), 1);
	*ret = dirlist_read(&l, fd, true, &slice, &cookie);
	slice_close(&slice);
	n = l.n;
	dirlist_done(&l);
	scratch_remove(dir);
	return n;
}

START_TEST(who_waits_for_a_request_is_let_in_between_two)
{
	struct counted few = { .entries = PACE_FEW, .most = UINT_MAX };
	struct counted many = { .entries = PACE_FEW + 1, .most = UINT_MAX };
	int r;

	ck_assert_uint_eq(list_counted(&few, &r), 1000);
	ck_assert_int_eq(r, 1);
	ck_assert_uint_gt(few.begun, 10);
	ck_assert_uint_eq(list_counted(&many, &r), 1000);
	ck_assert_int_eq(r, 1);
	ck_assert_uint_eq(many.begun, 1);
}
END_TEST

START_TEST(cancelled_between_two_there_is_more)
{
	struct counted c = { .entries = 1, .most = 3 };
	size_t n;
	int r;

	n = list_counted(&c, &r);
	ck_assert_int_eq(r, 0);
	ck_assert_uint_gt(n, 0);
	ck_assert_uint_lt(n, 1000);
}
END_TEST

START_TEST(what_is_no_directory_is_an_error)
{
	_cleanup_close_ int fd = open("/dev/null", O_RDONLY);
	struct dirlist l = { 0 };
	int64_t cookie;

	ck_assert_int_eq(dirlist_read(&l, fd, true, NULL, &cookie), -ENOTDIR);
	dirlist_done(&l);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { lists_everything_but_the_dots,
				 an_empty_allowance_means_small_chunks,
				 what_is_borrowed_comes_back,
				 names_of_a_list_get_their_inodes,
				 who_waits_for_a_request_is_let_in_between_two,
				 cancelled_between_two_there_is_more,
				 what_is_no_directory_is_an_error };

	return run_case("dirlist", tests, ELEMENTSOF(tests));
}
