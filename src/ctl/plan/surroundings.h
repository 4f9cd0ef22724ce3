/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where something lies: its filesystem, how that is mounted, and the devices it is on. */
#pragma once

#include "pacing/sensors/blockdevs.h"

struct surroundings {
	char *type, *mount_point, *source, *options; /* NULL: unavailable */
	uint64_t size_bytes, free_bytes, block_bytes;
	bool mounted_with_discard;
	bool quota_groups; /* btrfs keeps quota groups, and updates them for each extent freed */
	struct blockdevs devices;
};

/* fd is the directory that it lies in; O_PATH will do. Returns 0 or a negative errno; what cannot
 * be found out stays empty. */
int surroundings_find(int fd, struct surroundings *ret);
void surroundings_done(struct surroundings *s);
