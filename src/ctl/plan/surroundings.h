/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The filesystem that holds a directory: how it is mounted, and the devices below it. */
#pragma once

#include "pacing/sensors/blockdevs.h"

struct surroundings {
	char *type, *mount_point, *source, *options; /* NULL: unavailable */
	uint64_t size_bytes, free_bytes;
	bool mounted_with_discard;
	struct blockdevs devices;
};

/* Fills *ret, which the caller owns, for the filesystem of the directory open as `fd`; O_PATH is
 * enough. Leaves empty what it cannot find out. Returns 0 or a negative errno. */
int surroundings_find(int fd, struct surroundings *ret);
void surroundings_done(struct surroundings *s);
