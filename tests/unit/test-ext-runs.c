/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Free runs of ext filesystems: compared with what dumpe2fs says of filesystems that mke2fs makes
 * and fills. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "support.h"
#include "trim/ext-runs.h"

#define CLUSTERS_MOST (1 << 19)

static char scratch[64], image[80];
static uint64_t size;
static struct ext_runs runs;
static int fd;

/* Files of several sizes, so that what is free has holes. */
static void fill(const char *dir)
{
	char command[256];

	(void)snprintf(command, sizeof(command),
		       "mkdir %s && for i in $(seq 40); do head -c $((i * 17000)) /dev/urandom "
		       ">%s/$i; done",
		       dir, dir);
	ck_assert_int_eq(system(command), 0);
}

/* Makes a filesystem with files in it, some of which are gone again. */
static void make(const char *options, uint64_t bytes)
{
	char command[512], dir[80];

	scratch_make(scratch, sizeof(scratch));
	(void)snprintf(image, sizeof(image), "%s/image", scratch);
	(void)snprintf(dir, sizeof(dir), "%s/files", scratch);
	fill(dir);
	fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	size = bytes;
	(void)snprintf(command, sizeof(command),
		       "export PATH=$PATH:/sbin:/usr/sbin; mke2fs -q -F -d %s %s %s && for i in 3 "
		       "9 11 27 36; do echo rm $i; done | debugfs -w -f - %s >/dev/null 2>&1",
		       dir, options, image, image);
	ck_assert_int_eq(system(command), 0);
}

static void unmake(void)
{
	(void)close(fd);
	scratch_remove(scratch);
}

static void mark(uint8_t *clusters, uint64_t cluster, uint64_t start, uint64_t end)
{
	for (uint64_t b = start / cluster; b * cluster < end; b++) {
		ck_assert_uint_lt(b, CLUSTERS_MOST);
		clusters[b]++;
	}
}

/* What dumpe2fs says is free; of groups that were never used, all is. */
static void mark_dumped(uint8_t *clusters, const struct ext_metadata *m)
{
	static char line[1 << 20];
	char command[256], *at;
	uint64_t first, last, start = 0, end = 0;
	FILE *f;

	(void)snprintf(command, sizeof(command),
		       "PATH=$PATH:/sbin:/usr/sbin dumpe2fs %s 2>/dev/null", image);
	f = popen(command, "re");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Group %*u: (Blocks %lu-%lu)", &start, &end) == 2 &&
		    strstr(line, "BLOCK_UNINIT") && m->has_unused) {
			mark(clusters, m->cluster, start * m->block, (end + 1) * m->block);
			start = end = 0;
		}
		at = strstr(line, "  Free blocks: ");
		if (!at || end == 0)
			continue;
		for (at += strlen("  Free blocks: "); *at >= '0' && *at <= '9';
		     at += strspn(at, ", ")) {
			first = strtoull(at, &at, 10);
			last = *at == '-' ? strtoull(at + 1, &at, 10) : first;
			mark(clusters, m->cluster, first * m->block, (last + 1) * m->block);
		}
	}
	ck_assert_int_eq(pclose(f), 0);
}

/* Returns how many runs there are. */
static unsigned mark_runs(uint8_t *clusters)
{
	uint64_t start = 0, end = 0, before = 0;
	unsigned n = 0;

	while (ext_runs_next(&runs, before, &start, &end)) {
		ck_assert_uint_ge(start, before);
		ck_assert_uint_ge(end, start);
		ck_assert_uint_le(end, runs.metadata.end);
		ck_assert(end > before);
		mark(clusters, runs.metadata.cluster, start, end);
		before = end;
		n += end > start;
	}
	return n;
}

static void same_as_dumpe2fs(const char *options, uint64_t bytes)
{
	static uint8_t ours[CLUSTERS_MOST], dumped[CLUSTERS_MOST];

	memset(ours, 0, sizeof(ours));
	memset(dumped, 0, sizeof(dumped));
	make(options, bytes);
	ck_assert_int_eq(ext_runs_open(&runs, fd, size), 0);
	mark_dumped(dumped, &runs.metadata);
	ck_assert_uint_gt(mark_runs(ours), 4);
	for (size_t b = 0; b < CLUSTERS_MOST; b++)
		ck_assert_msg(ours[b] == dumped[b], "%s: cluster %zu: %d, dumpe2fs %d", options, b,
			      ours[b], dumped[b]);
	unmake();
}

START_TEST(runs_are_those_of_dumpe2fs)
{
	same_as_dumpe2fs("-t ext4", MiB(600));
	same_as_dumpe2fs("-t ext4 -O ^flex_bg", MiB(300));
	same_as_dumpe2fs("-t ext4 -O ^64bit,^metadata_csum,^uninit_bg", MiB(300));
	same_as_dumpe2fs("-t ext4 -b 1024", MiB(100));
	same_as_dumpe2fs("-t ext3 -b 2048", MiB(100));
	same_as_dumpe2fs("-t ext2 -b 4096 -g 1024 -I 256", MiB(100));
}
END_TEST

/* The last group is shorter than the others, and no whole number of bytes of its bitmap. */
START_TEST(runs_of_a_short_last_group)
{
	same_as_dumpe2fs("-t ext4 -b 1024", MiB(40) + KiB(3));
	same_as_dumpe2fs("-t ext4 -O ^uninit_bg,^metadata_csum", MiB(133));
}
END_TEST

/* A bit stands for a cluster of 16 blocks. */
START_TEST(runs_with_bigalloc)
{
	same_as_dumpe2fs("-t ext4 -O bigalloc -C 65536", MiB(600));
}
END_TEST

START_TEST(full_groups_have_none)
{
	uint64_t start, end;

	make("-t ext4 -b 1024 -g 1024 -m 0 -N 64 -O ^has_journal", MiB(20));
	ck_assert_int_eq(ext_runs_open(&runs, fd, size), 0);
	/* Files fill all from the beginning on; nothing is free before the first run. */
	ck_assert(ext_runs_next(&runs, 0, &start, &end));
	ck_assert_uint_gt(start, runs.metadata.first);
	/* From within a run its rest, from its end the next one. */
	ck_assert(ext_runs_next(&runs, end - 1024, &start, &end));
	ck_assert_uint_eq(start, end - 1024);
	ck_assert(!ext_runs_next(&runs, runs.metadata.end, &start, &end));
	unmake();
}
END_TEST

START_TEST(meta_bg_has_addresses_but_no_runs)
{
	make("-t ext4 -b 4096 -O meta_bg,^resize_inode", MiB(300));
	ck_assert_int_eq(ext_runs_open(&runs, fd, size), -EOPNOTSUPP);
	ck_assert_uint_eq(runs.metadata.group_bytes, MiB(128));
	ck_assert_uint_eq(runs.metadata.end, MiB(300));
	unmake();
}
END_TEST

/* A bitmap that is out of the device is no reason to leave the group out. */
START_TEST(damaged_group_is_one_run)
{
	uint64_t start, end;
	uint32_t far = UINT32_MAX;

	make("-t ext4 -b 4096 -O ^64bit,^metadata_csum", MiB(300));
	/* The second descriptor, behind the superblock's block. */
	ck_assert_int_eq(pwrite(fd, &far, sizeof(far), 4096 + 32), sizeof(far));
	ck_assert_int_eq(ext_runs_open(&runs, fd, size), 0);
	ck_assert(ext_runs_next(&runs, MiB(128), &start, &end));
	ck_assert_uint_eq(start, MiB(128));
	ck_assert_uint_eq(end, MiB(256));
	unmake();
}
END_TEST

START_TEST(other_filesystems_have_none)
{
	scratch_make(scratch, sizeof(scratch));
	(void)snprintf(image, sizeof(image), "%s/image", scratch);
	fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, MiB(8)), 0);
	ck_assert_int_eq(ext_runs_open(&runs, fd, MiB(8)), -EINVAL);
	unmake();
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		runs_are_those_of_dumpe2fs,
		runs_of_a_short_last_group,
		runs_with_bigalloc,
		full_groups_have_none,
		meta_bg_has_addresses_but_no_runs,
		damaged_group_is_one_run,
		other_filesystems_have_none,
	};

	if (system("PATH=$PATH:/sbin:/usr/sbin command -v mke2fs dumpe2fs debugfs >/dev/null") !=
	    0) {
		(void)fprintf(stderr, "skipped: e2fsprogs are not installed\n");
		return 77;
	}
	return run_case("ext-runs", tests, ELEMENTSOF(tests));
}
