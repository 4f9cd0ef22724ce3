/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The limits of the discards that a btrfs makes by itself (discard=async), in sysfs: set for a
 * time, and put back.
 *
 * What was there before is kept in a file, which is locked while they are set: if this process is
 * killed, the next one finds there what to put back. What another program or an administrator sets
 * meanwhile is left alone. */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "pacing/control/discard-limits.h"

/* What is in the file. */
struct kept_limits {
	struct discard_limits before, now;
	struct discard_limits next; /* being set: each value is that of `now` or this one */
};

/* Embedded by its users. */
struct btrfs_limits {
	char kept_path[PATH_MAX];
	int dirfd;   /* /sys/fs/btrfs/UUID/discard */
	int kept_fd; /* of that file, locked */
	struct kept_limits kept;
};

/* Takes the limits of the btrfs with this UUID over, without a change of them, or with those that
 * a killed process has left put back. `sys` is "/sys" and `run` is "/run", but for tests. Returns 0
 * or a negative errno, then with nothing to put back: -ENOENT where there is no such filesystem or
 * it makes no discards, -EWOULDBLOCK while another process has them. */
int btrfs_limits_take(struct btrfs_limits *l, const char *sys, const char *run, const char *uuid);

/* Sets them. Returns 0 or a negative errno: -ECANCELED if they are not what they were set to
 * before: they are not ours any more. */
int btrfs_limits_set(struct btrfs_limits *l, const struct discard_limits *to);

/* How many bytes are to be discarded, or a negative errno. */
int64_t btrfs_limits_discardable(const struct btrfs_limits *l);

/* Puts back what was there before, but for what another program has set since, and lets go of them.
 * If that fails the file stays, for the next one. */
void btrfs_limits_put_back(struct btrfs_limits *l);

/* Puts back what killed processes have left, of all filesystems. */
void btrfs_limits_recover(const char *sys, const char *run);
