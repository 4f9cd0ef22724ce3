/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where ext filesystems keep their metadata: compared with what dumpe2fs says of filesystems that
 * mke2fs makes, and of damaged ones. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pacing/debt/ext-metadata.h"
#include "base/macros.h"
#include "support.h"

#define BLOCKS_MOST (1 << 20)

static char scratch[64], image[80];
static int fd;
static uint64_t size;

/* Makes a filesystem of `size` in the image. */
static void make(const char *options, uint64_t bytes)
{
	char command[256];

	scratch_make(scratch, sizeof(scratch));
	(void)snprintf(image, sizeof(image), "%s/image", scratch);
	fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	size = bytes;
	(void)snprintf(command, sizeof(command), "PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F %s %s",
		       options, image);
	ck_assert_int_eq(system(command), 0);
}

static void unmake(void)
{
	(void)close(fd);
	scratch_remove(scratch);
}

/* Marks blocks; a range that is not one of whole blocks marks those that it is in. */
static void mark(uint8_t *blocks, uint64_t block, uint64_t off, uint64_t len)
{
	for (uint64_t b = off / block; b <= (off + len - 1) / block; b++) {
		ck_assert_uint_lt(b, BLOCKS_MOST);
		blocks[b]++;
	}
}

/* What dumpe2fs says. */
static void mark_dumped(uint8_t *blocks, uint64_t block)
{
	static const char *const words[] = { "lock bitmap at ", "node bitmap at ", "node table at ",
					     "superblock at ", "descriptors at " };
	char command[256], line[512], *at;
	uint64_t first, last;
	FILE *f;

	(void)snprintf(command, sizeof(command),
		       "PATH=$PATH:/sbin:/usr/sbin dumpe2fs %s 2>/dev/null", image);
	f = popen(command, "re");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		for (size_t i = 0; i < ELEMENTSOF(words); i++) {
			/* Copies are not written by a mounted filesystem. */
			at = strstr(line, "Backup") ? NULL : strstr(line, words[i]);
			if (!at)
				continue;
			first = strtoull(at + strlen(words[i]), &at, 10);
			last = *at == '-' ? strtoull(at + 1, NULL, 10) : first;
			mark(blocks, block, first * block, (last - first + 1) * block);
		}
	ck_assert_int_eq(pclose(f), 0);
}

/* Returns how many ranges there are. */
static unsigned mark_ranges(struct ext_metadata *m, uint64_t most, uint8_t *blocks)
{
	uint64_t off, len;
	unsigned n = 0;

	for (; ext_metadata_next(m, most, &off, &len); n++) {
		ck_assert_uint_gt(len, 0);
		ck_assert_uint_le(len, most);
		ck_assert_uint_le(off + len, size);
		mark(blocks, m->block, off, len);
	}
	return n;
}

static void same_as_dumpe2fs(const char *options, uint64_t bytes)
{
	static uint8_t ours[BLOCKS_MOST], dumped[BLOCKS_MOST];
	struct ext_metadata m;
	unsigned n;

	memset(ours, 0, sizeof(ours));
	memset(dumped, 0, sizeof(dumped));
	make(options, bytes);
	ck_assert_int_eq(ext_metadata_open(&m, fd, size), 0);
	mark_dumped(dumped, m.block);
	n = mark_ranges(&m, MiB(1), ours);
	ck_assert_uint_gt(n, 0);
	/* 1 KiB blocks: what is before the superblock is one more. */
	for (size_t b = m.block == 1024; b < BLOCKS_MOST; b++)
		ck_assert_msg(!ours[b] == !dumped[b], "%s: block %zu: %d, dumpe2fs %d", options, b,
			      ours[b], dumped[b]);
	/* It begins anew, and small steps are as good. */
	ck_assert_uint_gt(mark_ranges(&m, m.block, dumped), n);
	unmake();
}

#define ALL_USED "^metadata_csum,^uninit_bg,^resize_inode"

START_TEST(ranges_are_those_of_dumpe2fs)
{
	same_as_dumpe2fs("-t ext4 -O " ALL_USED, MiB(600));
	same_as_dumpe2fs("-t ext4 -O ^flex_bg," ALL_USED, MiB(600));
	same_as_dumpe2fs("-t ext4 -O ^64bit," ALL_USED, MiB(300));
	same_as_dumpe2fs("-t ext3 -b 1024 -O ^resize_inode", MiB(100));
	same_as_dumpe2fs("-t ext2 -b 4096 -g 1024 -I 128 -O ^resize_inode", MiB(200));
}
END_TEST

/* What was never used is not dirty: of many inode tables nothing is visited. */
START_TEST(unused_inodes_are_left_out)
{
	struct ext_metadata m;
	uint64_t off, len, sum = 0;

	make("-t ext4", MiB(600));
	ck_assert_int_eq(ext_metadata_open(&m, fd, size), 0);
	ck_assert(m.has_unused);
	while (ext_metadata_next(&m, MiB(1), &off, &len))
		sum += len;
	ck_assert_uint_lt(sum, m.table);
	ck_assert_uint_ge(ext_metadata_bytes(&m), m.n_groups * m.table);
	unmake();
}
END_TEST

START_TEST(other_filesystems_are_refused)
{
	struct ext_metadata m;

	make("-t ext4 -O ^resize_inode,meta_bg", MiB(64));
	ck_assert_int_eq(ext_metadata_open(&m, fd, size), -EOPNOTSUPP);
	ck_assert_int_eq(pwrite(fd, "", 1, 1024 + 0x38), 1);
	ck_assert_int_eq(ext_metadata_open(&m, fd, size), -EINVAL);
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq(ext_metadata_open(&m, fd, size), -EINVAL);
	ck_assert_int_eq(ext_metadata_open(&m, -1, size), -EBADF);
	unmake();
}
END_TEST

/* Whatever is in the superblock and the descriptors: ranges are in the device, and there is an end.
 */
START_TEST(damaged_filesystems_stay_in_the_device)
{
	struct ext_metadata m;
	uint8_t before[4096], damaged[4096];
	uint64_t off, len;

	make("-t ext4 -O ^uninit_bg,^metadata_csum", MiB(600));
	srandom(23);
	for (unsigned i = 0; i < 2000; i++) {
		off_t at = i % 2 ? 0 : 4096;

		ck_assert_int_eq(pread(fd, before, sizeof(before), at), sizeof(before));
		memcpy(damaged, before, sizeof(before));
		for (unsigned k = 0; k < 20; k++)
			damaged[(i % 2 ? 1024 : 0) + random() % (i % 2 ? 0x160 : 0x140)] =
				(uint8_t)random();
		if (i % 2) {
			memcpy(damaged + 1024 + 0x38, "\x53\xef", 2);
			damaged[1024 + 0x60] &= 0xef;
			damaged[1024 + 0x18] %= 7;
			memset(damaged + 1024 + 0x19, 0, 3);
		}
		ck_assert_int_eq(pwrite(fd, damaged, sizeof(damaged), at), sizeof(damaged));
		if (ext_metadata_open(&m, fd, size) == 0)
			for (unsigned n = 0; n < 1000 && ext_metadata_next(&m, MiB(1), &off, &len);
			     n++) {
				ck_assert_uint_gt(len, 0);
				ck_assert_uint_le(len, MiB(1));
				ck_assert_uint_le(off, size);
				ck_assert_uint_le(len, size - off);
			}
		ck_assert_int_eq(pwrite(fd, before, sizeof(before), at), sizeof(before));
	}
	unmake();
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		ranges_are_those_of_dumpe2fs,
		unused_inodes_are_left_out,
		other_filesystems_are_refused,
		damaged_filesystems_stay_in_the_device,
	};

	return run_case("ext-metadata", tests, ELEMENTSOF(tests));
}
