/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "engine/spread.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "support.h"
#include "util/fd.h"
#include "util/macros.h"

static struct spread known(uint64_t size)
{
	return (struct spread){ .fd = -1, .group_bytes = MiB(128), .mapped = size };
}

static void expect(struct spread *s, uint64_t size, uint64_t offset, uint64_t length)
{
	uint64_t o, l;

	ck_assert_int_eq(spread_next(s, size, MiB(1), &o, &l), 1);
	ck_assert_uint_eq(o, offset);
	ck_assert_uint_eq(l, length);
}

/* The heads of all groups in turn; where they end, nothing is left out. */
START_TEST(groups_take_turns)
{
	uint64_t size = MiB(200), o, l;
	struct spread s = known(size);

	ck_assert_uint_eq(spread_add(&s, MiB(100), 0, size), size);
	ck_assert_uint_eq(s.n, 3); /* 28, 128 and 44 MiB */
	expect(&s, size, 0, MiB(1));
	expect(&s, size, MiB(28), MiB(1));
	expect(&s, size, MiB(156), MiB(1));
	expect(&s, size, MiB(1), MiB(1));
	for (uint64_t left = size - MiB(4); left > 0; left -= l)
		ck_assert_int_eq(spread_next(&s, size, MiB(1), &o, &l), 1);
	ck_assert_int_eq(spread_next(&s, size, MiB(1), &o, &l), 0);
}
END_TEST

/* Two extents of one group, the second of which lies before the first: ascending on the device, or
 * the discard of one would go on into the other. */
START_TEST(a_group_is_freed_from_its_head)
{
	uint64_t size = MiB(4);
	struct spread s = known(size);

	s.v[0] = (struct spread_extent){ 1, MiB(140), MiB(2), MiB(2) };
	s.v[1] = (struct spread_extent){ 1, MiB(150), 0, MiB(2) };
	s.n = 2;
	expect(&s, size, MiB(2), MiB(1));
	expect(&s, size, MiB(3), MiB(1));
	expect(&s, size, 0, MiB(1));
	expect(&s, size, MiB(1), MiB(1));
}
END_TEST

START_TEST(what_finds_no_room_is_told)
{
	struct spread s = known(MiB(128) * 100);

	ck_assert_uint_eq(spread_add(&s, 0, 0, MiB(128) * 100), MiB(128) * SPREAD_EXTENTS);
	ck_assert_uint_eq(spread_add(&s, 0, 0, MiB(1)), 0);
}
END_TEST

/* A real file: each of its bytes comes once, whether the filesystem tells where they are or not. */
START_TEST(a_file_comes_to_its_end)
{
	char dir[PATH_MAX], path[PATH_MAX + 8];
	_cleanup_close_ int fd = -1;
	static const char data[KiB(64)] = { 1 };
	uint64_t o, l, all = 0;
	struct spread s;
	int r;

	scratch_make(dir, sizeof(dir));
	(void)snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (int i = 0; i < 64; i++)
		ck_assert_int_eq(pwrite(fd, data, sizeof(data), i * KiB(64)), sizeof(data));
	ck_assert_int_eq(fsync(fd), 0);
	spread_init(&s, fd);
	while ((r = spread_next(&s, MiB(4), KiB(256), &o, &l)) == 1) {
		ck_assert_uint_le(o + l, MiB(4));
		all += l;
	}
	ck_assert_int_eq(r, 0);
	ck_assert_uint_eq(all, MiB(4));
	scratch_remove(dir);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { groups_take_turns, a_group_is_freed_from_its_head,
				 what_finds_no_room_is_told, a_file_comes_to_its_end };

	return run_case("spread", tests, ELEMENTSOF(tests));
}
