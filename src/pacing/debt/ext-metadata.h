/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where ext2, ext3 and ext4 keep what a deletion dirties: superblock and group descriptors,
 * bitmaps, inode tables. As ranges of the block device, read from the device itself.
 *
 * For kernels that do not tell which pages are dirty; and block groups, for what asks for free
 * space. The page cache of the device is where a mounted filesystem keeps all that, so what is read
 * is as it is now. Nothing here allocates, and a damaged
 * filesystem yields ranges within the device or none. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ext_metadata {
	int fd;                   /* of the block device; not owned */
	uint64_t size;            /* of the device, in bytes */
	uint32_t block;           /* bytes */
	uint64_t n_groups, table; /* block groups, and bytes of the inode table of each */
	uint64_t descriptors;     /* offset of their descriptors */
	uint32_t descriptor;      /* bytes of each */
	uint32_t inode;           /* bytes of each */
	bool has_unused;          /* a descriptor tells what of the group was never used */

	/* Addresses are bytes of the filesystem. */
	uint64_t first, end;  /* of all block groups */
	uint64_t group_bytes; /* but for the last one */
	uint32_t cluster;     /* bytes; what a bit of a block bitmap stands for */
	bool scattered;       /* descriptors are not in one place (meta_bg) */

	/* Where the next range begins. */
	unsigned kind;
	uint64_t group, within;

	uint64_t read_at; /* offset of what is in `read`; UINT64_MAX: nothing */
	uint8_t read[4096];
};

/* For the filesystem on this device, which is open for reading and so large. Returns 0 or a
 * negative errno: -EINVAL if it is not ext2, ext3 or ext4; -EOPNOTSUPP if its descriptors are not
 * in one place (meta_bg), but then the addresses are known; or what reading says. */
int ext_metadata_open(struct ext_metadata *m, int fd, uint64_t size);

struct ext_group {
	uint64_t start, end; /* addresses */
	uint64_t bitmap;     /* offset of the block bitmap */
	uint32_t free;       /* blocks, or clusters where these are larger */
	bool unused;         /* there is no bitmap yet: all but metadata is free */
};

/* Returns 0 or a negative errno: -EINVAL if there is no such group, or what is said of it is
 * damaged; -EOPNOTSUPP if its descriptor is elsewhere; or what reading says. */
int ext_metadata_group(struct ext_metadata *m, uint64_t group, struct ext_group *ret);

/* All of it, in bytes; what inode tables never used included. */
uint64_t ext_metadata_bytes(const struct ext_metadata *m);

/* The next range of at most so many bytes (a page at least). Returns false, and begins anew, after
 * the last one. */
bool ext_metadata_next(struct ext_metadata *m, uint64_t most, uint64_t *ret_off, uint64_t *ret_len);
