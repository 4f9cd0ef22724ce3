/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* btrfs: which subvolume a directory is in, and which snapshots share its blocks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUBVOLUMES_MOST 256

struct subvolume {
	uint64_t id;
	uint8_t uuid[16], parent_uuid[16];
	bool is_snapshot;
};

/* The subvolume that the directory open as fd is in. Returns 0 or a negative errno: -ENOTTY where
 * this is not btrfs. */
int subvolume_info(int fd, struct subvolume *ret);

/* Counts the snapshots of any of these subvolumes that are not among them. fd is any directory on
 * the filesystem. Returns their number or a negative errno: -EPERM if the caller may not know. */
int64_t snapshots_elsewhere(int fd, const struct subvolume *of, size_t n);
