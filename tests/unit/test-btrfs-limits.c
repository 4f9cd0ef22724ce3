/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Limits that are set for a time, in a tree of files like that of sysfs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/macros.h"
#include "pacing/discards/btrfs-limits.h"
#include "support.h"

#define UUID "0d4f9c1e-5d3a-4b7c-8a39-3f5e2d1c0b9a"
#define DIR "fs/btrfs/" UUID "/discard"

static char top[64], kept[128];
static const struct discard_limits ours = { 100, MiB(1) }, smaller = { 50, KiB(512) };

static void setup(void)
{
	scratch_make(top, sizeof(top));
	(void)snprintf(kept, sizeof(kept), "%s/reclaim-discards." UUID, top);
	file_make(top, DIR "/iops_limit", "1000\n");
	file_make(top, DIR "/max_discard_size", "67108864\n");
	file_make(top, DIR "/discardable_bytes", "4096\n");
}

static void teardown(void)
{
	scratch_remove(top);
}

static unsigned long found(const char *name)
{
	char path[256];
	unsigned long v = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/" DIR "/%s", top, name);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%lu", &v), 1);
	(void)fclose(f);
	return v;
}

static void check(unsigned long iops, unsigned long max_bytes)
{
	ck_assert_uint_eq(found("iops_limit"), iops);
	ck_assert_uint_eq(found("max_discard_size"), max_bytes);
}

static struct btrfs_limits take(void)
{
	struct btrfs_limits l;

	ck_assert_int_eq(btrfs_limits_take(&l, top, top, UUID), 0);
	return l;
}

/* And set. */
static struct btrfs_limits take_and_set(void)
{
	struct btrfs_limits l = take();

	ck_assert_int_eq(btrfs_limits_set(&l, &ours), 0);
	check(100, MiB(1));
	return l;
}

/* As of one that is killed: what it has open is closed. */
static void die(struct btrfs_limits *l)
{
	(void)close(l->kept_fd);
	(void)close(l->dirfd);
}

START_TEST(set_and_put_back)
{
	struct btrfs_limits l = take();

	check(1000, 67108864);
	ck_assert_int_eq(btrfs_limits_discardable(&l), 4096);
	ck_assert_int_eq(btrfs_limits_set(&l, &ours), 0);
	check(100, MiB(1));
	ck_assert_int_eq(btrfs_limits_set(&l, &smaller), 0);
	check(50, KiB(512));
	btrfs_limits_put_back(&l);
	check(1000, 67108864);
	ck_assert_int_ne(access(kept, F_OK), 0);
}
END_TEST

/* I8 of a kind: no way to end leaves what was not there before. */
START_TEST(killed_ones_are_put_back)
{
	struct btrfs_limits l = take_and_set();

	die(&l);
	l = take();
	check(1000, 67108864);
	ck_assert_uint_eq(l.kept.before.iops, 1000);
	ck_assert_int_eq(btrfs_limits_set(&l, &ours), 0);
	ck_assert_int_eq(btrfs_limits_set(&l, &smaller), 0);
	die(&l);
	btrfs_limits_recover(top, top);
	check(1000, 67108864);
	ck_assert_int_ne(access(kept, F_OK), 0);
}
END_TEST

/* While it sets other ones: what is next is in the file, and none, one or both of them are set. */
START_TEST(killed_while_it_sets)
{
	static const char *const iops[] = { "100\n", "50\n" }, *const max_bytes[] = { "1048576\n",
										      "524288\n" };

	for (unsigned i = 0; i < 4; i++) {
		struct btrfs_limits l = take_and_set();

		ck_assert_int_eq(btrfs_limits_set(&l, &smaller), 0);
		die(&l);
		file_make(top, DIR "/iops_limit", iops[i & 1]);
		file_make(top, DIR "/max_discard_size", max_bytes[i >> 1]);
		btrfs_limits_recover(top, top);
		check(1000, 67108864);
	}
}
END_TEST

/* What cannot be put back now is not forgotten. */
START_TEST(put_back_later)
{
	struct btrfs_limits l = take_and_set();

	file_make(top, DIR "/iops_limit", "many\n");
	btrfs_limits_put_back(&l);
	ck_assert_int_eq(access(kept, F_OK), 0);
	ck_assert_int_eq(btrfs_limits_take(&l, top, top, UUID), -EBADMSG);
	ck_assert_int_eq(access(kept, F_OK), 0);
	file_make(top, DIR "/iops_limit", "100\n");
	btrfs_limits_recover(top, top);
	check(1000, 67108864);
	ck_assert_int_ne(access(kept, F_OK), 0);
}
END_TEST

START_TEST(what_another_sets_stays)
{
	struct btrfs_limits l = take_and_set();

	file_make(top, DIR "/iops_limit", "333\n");
	ck_assert_int_eq(btrfs_limits_set(&l, &smaller), -ECANCELED);
	check(333, MiB(1));
	btrfs_limits_put_back(&l);
	check(333, 67108864);
	/* And what was set after a kill. */
	l = take();
	ck_assert_int_eq(btrfs_limits_set(&l, &ours), 0);
	die(&l);
	file_make(top, DIR "/max_discard_size", "12345\n");
	l = take();
	check(333, 12345);
	btrfs_limits_put_back(&l);
	check(333, 12345);
}
END_TEST

START_TEST(one_at_a_time)
{
	struct btrfs_limits l = take(), other;

	ck_assert_int_eq(btrfs_limits_set(&l, &ours), 0);
	ck_assert_int_eq(btrfs_limits_take(&other, top, top, UUID), -EWOULDBLOCK);
	btrfs_limits_recover(top, top);
	check(100, MiB(1));
	ck_assert_int_eq(access(kept, F_OK), 0);
	btrfs_limits_put_back(&l);
	ck_assert_int_eq(btrfs_limits_take(&other, top, top, UUID), 0);
	btrfs_limits_put_back(&other);
	check(1000, 67108864);
}
END_TEST

START_TEST(not_there)
{
	struct btrfs_limits l = take();
	char path[192];

	/* Unmounted while they were set: they went with it, and nothing is left behind. */
	ck_assert_int_eq(btrfs_limits_set(&l, &ours), 0);
	(void)snprintf(path, sizeof(path), "%s/" DIR "/iops_limit", top);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(btrfs_limits_set(&l, &smaller), -ENOENT);
	btrfs_limits_put_back(&l);
	ck_assert_int_ne(access(kept, F_OK), 0);
	ck_assert_int_eq(btrfs_limits_take(&l, top, top, UUID), -ENOENT);
	ck_assert_int_ne(access(kept, F_OK), 0);
	ck_assert_int_eq(btrfs_limits_take(&l, top, top, "../../etc"), -EINVAL);
	ck_assert_int_eq(btrfs_limits_take(&l, top, top, ""), -EINVAL);
	/* Of a filesystem that is not mounted any more. */
	file_make(top, "reclaim-discards.12345678-0000", "");
	btrfs_limits_recover(top, top);
	(void)snprintf(path, sizeof(path), "%s/reclaim-discards.12345678-0000", top);
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(what_is_no_number)
{
	struct btrfs_limits l = take_and_set();

	file_make(top, DIR "/iops_limit", "many\n");
	ck_assert_int_eq(btrfs_limits_set(&l, &smaller), -EBADMSG);
	btrfs_limits_put_back(&l);
	file_make(top, DIR "/iops_limit", "-1\n");
	ck_assert_int_eq(btrfs_limits_take(&l, top, top, UUID), -EBADMSG);
	file_make(top, DIR "/discardable_bytes", "");
	file_make(top, DIR "/iops_limit", "0\n");
	l = take();
	ck_assert_int_eq(btrfs_limits_discardable(&l), -EBADMSG);
	btrfs_limits_put_back(&l);
	ck_assert_int_ne(access(kept, F_OK), 0);

	/* Nothing was set, and so there is nothing to remember. */
	file_make(top, DIR "/iops_limit", "many\n");
	ck_assert_int_eq(btrfs_limits_take(&l, top, top, UUID), -EBADMSG);
	ck_assert_int_ne(access(kept, F_OK), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		set_and_put_back, killed_ones_are_put_back, killed_while_it_sets,
		put_back_later,   what_another_sets_stays,  one_at_a_time,
		not_there,        what_is_no_number
	};
	Suite *s = suite_create("btrfs-limits");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, setup, teardown);
	return run_tests(s, tc, tests, ELEMENTSOF(tests));
}
