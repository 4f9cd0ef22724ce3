/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which block groups ext4 is told are trimmed: those of which all was, in several ranges, and in
 * which nothing was freed meanwhile. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "support.h"
#include "trim/ext-marks.h"

#define BLOCK 4096ULL
#define GROUP ((uint64_t)MiB(128))

static char scratch[64], image[80];
static struct ext_runs runs;
static struct ext_marks marks;
static struct ext_marks_call call;
static uint8_t bitmap[BLOCK];
static uint64_t bitmap_at;
static int fd;

/* Blocks of the second group are in use, or not, as in the bitmap. */
static void bitmap_write(void)
{
	ck_assert_int_eq(pwrite(fd, bitmap, sizeof(bitmap), (off_t)bitmap_at), sizeof(bitmap));
}

static void set(uint64_t from, uint64_t to, bool used)
{
	for (uint64_t b = from; b < to; b++)
		bitmap[b / 8] = used ? bitmap[b / 8] | 1U << b % 8 : bitmap[b / 8] & ~(1U << b % 8);
	bitmap_write();
}

/* In the second group of three, 100, 300 and 50 blocks are free. */
static void make(void)
{
	struct ext_group g;
	char command[256];

	scratch_make(scratch, sizeof(scratch));
	(void)snprintf(image, sizeof(image), "%s/image", scratch);
	fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, MiB(384)), 0);
	(void)snprintf(command, sizeof(command),
		       "PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F -t ext4 -b 4096 -O "
		       "^metadata_csum,^uninit_bg %s",
		       image);
	ck_assert_int_eq(system(command), 0);
	memset(&marks, 0, sizeof(marks));
	ck_assert_int_eq(ext_runs_open(&runs, fd, MiB(384)), 0);
	ck_assert_int_eq(ext_metadata_group(&runs.metadata, 1, &g), 0);
	bitmap_at = g.bitmap;
	memset(bitmap, 0xff, sizeof(bitmap));
	set(1000, 1100, false);
	set(2000, 2300, false);
	set(3000, 3050, false);
}

static void unmake(void)
{
	(void)close(fd);
	scratch_remove(scratch);
}

/* A range that ends behind the first run, as far as the next one: then the rest. */
static bool trim_in_two(void)
{
	uint64_t start, end;

	ck_assert(ext_runs_next(&runs, GROUP, &start, &end));
	ck_assert_uint_eq(start, GROUP + 1000 * BLOCK);
	if (ext_marks_trimmed(&marks, &runs, GROUP, GROUP + 2000 * BLOCK))
		return false;
	return ext_marks_trimmed(&marks, &runs, GROUP + 2000 * BLOCK, 2 * GROUP);
}

START_TEST(group_that_was_trimmed_in_two_is_marked)
{
	make();
	ck_assert(trim_in_two());
	ck_assert(ext_marks_begin(&marks, &runs, &call));
	ck_assert_uint_eq(call.start, GROUP);
	ck_assert_uint_eq(call.bytes, GROUP);
	/* No run is as long as that, but more than that is free. */
	ck_assert_uint_eq(call.min_bytes, 301 * BLOCK);
	ext_marks_end(&marks, &runs, 12345, &call);
	ck_assert_uint_eq(call.start, 0);
	ck_assert_uint_eq(call.bytes, 2 * BLOCK);
	ck_assert_uint_eq(call.min_bytes, 12345);
	unmake();
}
END_TEST

START_TEST(group_that_was_trimmed_in_one_is_not)
{
	uint64_t start, end;

	make();
	ck_assert(ext_runs_next(&runs, GROUP, &start, &end));
	ck_assert(!ext_marks_trimmed(&marks, &runs, GROUP, 2 * GROUP));
	ck_assert(!ext_marks_trimmed(&marks, &runs, 2 * GROUP, 3 * GROUP));
	unmake();
}
END_TEST

/* Its beginning was left out. */
START_TEST(group_of_which_not_all_was_trimmed_is_not)
{
	uint64_t start, end;

	make();
	ck_assert(ext_runs_next(&runs, GROUP, &start, &end));
	ck_assert(!ext_marks_trimmed(&marks, &runs, GROUP + BLOCK, GROUP + 2000 * BLOCK));
	ck_assert(!ext_marks_trimmed(&marks, &runs, GROUP + 2000 * BLOCK, 2 * GROUP));
	unmake();
}
END_TEST

START_TEST(group_in_which_something_was_freed_is_not)
{
	make();
	ck_assert(trim_in_two());
	set(5000, 5001, false);
	ck_assert(!ext_marks_begin(&marks, &runs, &call));
	/* Nor later. */
	ck_assert(!ext_marks_trimmed(&marks, &runs, 2 * GROUP, 3 * GROUP));
	unmake();
}
END_TEST

START_TEST(what_was_used_since_is_no_reason)
{
	make();
	ck_assert(trim_in_two());
	set(2000, 2250, true);
	ck_assert(ext_marks_begin(&marks, &runs, &call));
	ck_assert_uint_eq(call.min_bytes, 101 * BLOCK);
	unmake();
}
END_TEST

/* Between the two calls: the second one is for what was freed. */
START_TEST(what_is_freed_at_the_last_moment_is_trimmed)
{
	make();
	ck_assert(trim_in_two());
	ck_assert(ext_marks_begin(&marks, &runs, &call));
	set(5000, 5010, false);
	set(7000, 7001, false);
	ext_marks_end(&marks, &runs, 0, &call);
	ck_assert_uint_eq(call.start, GROUP + 5000 * BLOCK);
	ck_assert_uint_eq(call.start + call.bytes, GROUP + 7001 * BLOCK);
	ck_assert_uint_eq(call.min_bytes, 0);
	unmake();
}
END_TEST

/* There is no least size that would leave it out. */
START_TEST(group_with_one_run_is_left)
{
	make();
	ck_assert(trim_in_two());
	set(2000, 2300, true);
	set(3000, 3050, true);
	ck_assert(!ext_marks_begin(&marks, &runs, &call));
	unmake();
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		group_that_was_trimmed_in_two_is_marked,
		group_that_was_trimmed_in_one_is_not,
		group_of_which_not_all_was_trimmed_is_not,
		group_in_which_something_was_freed_is_not,
		what_was_used_since_is_no_reason,
		what_is_freed_at_the_last_moment_is_trimmed,
		group_with_one_run_is_left,
	};

	if (system("PATH=$PATH:/sbin:/usr/sbin command -v mke2fs >/dev/null") != 0) {
		(void)fprintf(stderr, "skipped: e2fsprogs are not installed\n");
		return 77;
	}
	return run_case("ext-marks", tests, ELEMENTSOF(tests));
}
