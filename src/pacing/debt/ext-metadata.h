/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where ext2, ext3 and ext4 keep what a deletion dirties: superblock and group descriptors,
 * bitmaps, inode tables. As ranges of the block device, read from the device itself.
 *
 * For kernels that do not tell which pages are dirty. Nothing here allocates, and a damaged
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
	bool has_unused;          /* a descriptor tells how many inodes were never used */

	/* Where the next range begins. */
	unsigned kind;
	uint64_t group, within;

	uint64_t read_at; /* offset of what is in `read`; UINT64_MAX: nothing */
	uint8_t read[4096];
};

/* For the filesystem on this device, which is open for reading and so large. Returns 0 or a
 * negative errno: -EINVAL if it is not ext2, ext3 or ext4, -EOPNOTSUPP if its descriptors are not
 * in one place (meta_bg), or what reading says. */
int ext_metadata_open(struct ext_metadata *m, int fd, uint64_t size);

/* All of it, in bytes; what inode tables never used included. */
uint64_t ext_metadata_bytes(const struct ext_metadata *m);

/* The next range of at most so many bytes (a page at least). Returns false, and begins anew, after
 * the last one. */
bool ext_metadata_next(struct ext_metadata *m, uint64_t most, uint64_t *ret_off, uint64_t *ret_len);
