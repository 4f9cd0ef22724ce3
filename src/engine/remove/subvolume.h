/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* btrfs subvolumes are destroyed as a whole: one call instead of a walk. */
#pragma once

#include <stdbool.h>

/* True if the open directory is the root of a btrfs subvolume. Only asked on btrfs. */
bool subvolume_is(int fd);

/* Destroys the subvolume `name` in dirfd, open as fd. Returns 1 if it is gone, 0 if it has to be
 * walked like any directory (not permitted, has subvolumes of its own, holds a mount), or -EBUSY if
 * it is mounted somewhere and has to stay. */
int subvolume_destroy(int dirfd, const char *name, int fd);
