/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The block devices beneath a filesystem: the one it is on, what that consists of (device mapper,
 * MD, partitions, loop files), down to the ones that consist of nothing else. As sysfs has them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BLOCKDEVS_MOST 64

struct blockdev {
	dev_t dev;
	dev_t disk; /* of a partition, the whole disk; else the same */
	char name[64], disk_name[64];
	char *backing_file; /* of a loop device, or NULL */
	bool top;           /* the filesystem is on it directly */
	bool leaf;          /* consists of no other block device */
	bool rotating;
	uint64_t discard_max_bytes;   /* 0: no discard */
	uint64_t discard_granularity; /* bytes; 0: not told */
	bool counts;                  /* its counters move: queue/iostats is not off */
};

/* Embedded by its users; all zero is an empty one. */
struct blockdevs {
	struct blockdev v[BLOCKDEVS_MOST];
	size_t n;
};

/* Adds a device and all that it consists of. `sys` is "/sys", but for tests. Returns 0 or a
 * negative errno; -ENODEV if sysfs does not know the device (it is none, or hidden). */
int blockdevs_add(struct blockdevs *b, const char *sys, dev_t dev);

/* Adds all devices of the btrfs with this UUID (as text), and all that they consist of. Returns 0
 * or a negative errno; -ENOENT if sysfs does not know the filesystem. */
int blockdevs_add_btrfs(struct blockdevs *b, const char *sys, const char *uuid);

/* Moves what `from` has and b lacks to b, where it is beneath something else: not `top`. `from` is
 * empty afterwards. */
void blockdevs_take(struct blockdevs *b, struct blockdevs *from);

void blockdevs_done(struct blockdevs *b);

/* True if any leaf turns. */
bool blockdevs_rotating(const struct blockdevs *b);

/* True if a discard that the filesystem issues gets anywhere. */
bool blockdevs_discard(const struct blockdevs *b);
