/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A filesystem as FITRIM sees it: whether it can be trimmed at all, and how finely. Looking changes
 * nothing, and needs no right. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/block-node.h"

/* Whose addresses and habits FITRIM has. */
enum trim_family {
	TRIM_NONE, /* has no FITRIM, as far as is known */
	TRIM_EXT,
	TRIM_XFS,
	TRIM_BTRFS,
	TRIM_EXACT, /* FAT, exFAT, NTFS: what is free in the range, from 0 on */
	TRIM_WHOLE, /* what is known to have it, in ways of its own */
};

/* Why it is not trimmed. */
enum trim_obstacle {
	TRIM_POSSIBLE,
	TRIM_NO_DISCARD, /* the device does not discard: nothing is wrong */
	TRIM_READ_ONLY,
	TRIM_OVERLAY,   /* its layers are trimmed, not itself */
	TRIM_NO_DEVICE, /* in memory, on a server, in a process */
	TRIM_UNKNOWN,   /* the filesystem has no FITRIM */
};

/* How a step is bounded: what one call may have to discard at most. */
enum trim_bound {
	TRIM_BY_SIZE,  /* as much as is asked for */
	TRIM_BY_RUN,   /* a free run, at most a block group */
	TRIM_BY_GROUP, /* a block group */
	TRIM_BY_CHUNK, /* btrfs: a chunk, a gibibyte or more; but first all that is not allocated */
	TRIM_UNBOUNDED, /* the whole filesystem */
	TRIM_BOUNDS,
};

struct trim_target {
	enum trim_family family;
	enum trim_obstacle obstacle;
	char type[32];          /* of filesystem, as mounted */
	char none[64];          /* of TRIM_NO_DEVICE: where it is instead */
	dev_t dev;              /* of the mounted filesystem: the same for all of its mounts */
	struct block_node node; /* of TRIM_EXT */
	uint64_t size_bytes, free_bytes;
	uint32_t block;
	char device[64];   /* the name of the first device, or "" */
	char backing[256]; /* of a loop device: the file in which discards punch holes, or "" */
	bool crypt;        /* the device is one of dm-crypt */
};

/* fd: any descriptor on the filesystem but O_PATH. Returns 0 or a negative errno: what looking at
 * the file or its mount says; -ENOMEM. */
int trim_target_find(struct trim_target *ret, int fd);

/* What bounds a step there, as far as is known before the filesystem is looked at. */
enum trim_bound trim_target_bound(const struct trim_target *t, uint64_t min_bytes);

/* "by-size", "by-run" and so on, for programs; and a sentence's end, for people. */
const char *trim_bound_name(enum trim_bound b);
const char *trim_bound_text(enum trim_bound b);
