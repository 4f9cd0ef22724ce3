/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "pacing/sensors/figures.h"
#include "support.h"
#include "base/fd.h"

START_TEST(rows)
{
	uint64_t v[3] = { 7, 7, 7 };

	ck_assert_int_eq(figures_row("  1 \t22   333\n4 5\n", v, 3), 3);
	ck_assert_uint_eq(v[0], 1);
	ck_assert_uint_eq(v[1], 22);
	ck_assert_uint_eq(v[2], 333);
	ck_assert_int_eq(figures_row("1 2 3 4 5", v, 3), 5);
	ck_assert_uint_eq(v[2], 3);
	ck_assert_int_eq(figures_row("", v, 3), 0);
	ck_assert_int_eq(figures_row("18446744073709551615", v, 3), 1);
	ck_assert_uint_eq(v[0], UINT64_MAX);
}
END_TEST

START_TEST(rows_of_something_else)
{
	uint64_t v[3];

	ck_assert_int_eq(figures_row("1 two 3", v, 3), -EBADMSG);
	ck_assert_int_eq(figures_row("1 2x", v, 3), -EBADMSG);
	ck_assert_int_eq(figures_row("-1", v, 3), -EBADMSG);
	ck_assert_int_eq(figures_row("18446744073709551616", v, 3), -EBADMSG);
}
END_TEST

START_TEST(labels)
{
	static const char text[] = "commits 5\nlast_commit_ms\t17\nempty\nlast 3x\n";
	uint64_t v = 99;

	ck_assert(figures_labelled(text, "commits", &v));
	ck_assert_uint_eq(v, 5);
	ck_assert(figures_labelled(text, "last_commit_ms", &v));
	ck_assert_uint_eq(v, 17);
	ck_assert(figures_labelled(text, "last", &v));
	ck_assert_uint_eq(v, 3);
	ck_assert(!figures_labelled(text, "commit", &v));
	ck_assert(!figures_labelled(text, "empty", &v));
	ck_assert(!figures_labelled("", "commits", &v));
}
END_TEST

START_TEST(files_are_read_from_their_beginning_each_time)
{
	char dir[PATH_MAX], path[PATH_MAX + 8], buf[8];
	int fd;

	scratch_make(dir, sizeof(dir));
	file_make(dir, "f", "first");
	(void)snprintf(path, sizeof(path), "%s/f", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(figures_read(fd, buf, sizeof(buf)), 5);
	ck_assert_str_eq(buf, "first");
	file_make(dir, "f", "2nd");
	ck_assert_int_eq(figures_read(fd, buf, sizeof(buf)), 3);
	ck_assert_str_eq(buf, "2nd");
	file_make(dir, "f", "more than fits");
	ck_assert_int_eq(figures_read(fd, buf, sizeof(buf)), 7);
	ck_assert_str_eq(buf, "more th");
	(void)close(fd);
	ck_assert_int_eq(figures_read(fd, buf, sizeof(buf)), -EBADF);
	scratch_remove(dir);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { rows, rows_of_something_else, labels,
				 files_are_read_from_their_beginning_each_time };

	return run_case("figures", tests, sizeof(tests) / sizeof(tests[0]));
}
