/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How often a filesystem has committed, and what that took. What is freed is paid there: every
 * fsync beside it waits for the commit. */
#pragma once

#include <stdint.h>

enum commit_kind {
	COMMIT_NONE,
	COMMIT_JBD2,  /* ext3 and ext4: /proc/fs/jbd2/DEVICE-INODE/info */
	COMMIT_XFS,   /* /sys/fs/xfs/DEVICE/stats/stats */
	COMMIT_BTRFS, /* /sys/fs/btrfs/UUID/commit_stats, since Linux 6.1 */
};

/* Counts since the filesystem was mounted. */
struct commit_sample {
	uint64_t commits; /* transactions (ext, btrfs); forces of the log (XFS) */
	/* What the last ones took: ext, the kernel's running mean (3/4 old, 1/4 new), in
	 * microseconds; btrfs, the last one, in whole milliseconds; XFS, 0: it takes no times. */
	uint64_t recent_usec;
	uint64_t total_usec;  /* of all commits; btrfs only, else 0 */
	uint64_t max_usec;    /* the longest; btrfs only, else 0 */
	uint64_t log_writes;  /* XFS: writes to the log, else 0 */
	uint64_t log_sectors; /* XFS: sectors of 512 bytes written to the log, else 0 */
};

/* Reads the figures of a filesystem, whose kind and path are as devices_find has them. Returns 0 or
 * a negative errno, then with *ret untouched: -ENOENT if they are not there, -EINVAL for
 * COMMIT_NONE, -EBADMSG if it is something else. */
int commit_sample(enum commit_kind kind, const char *path, struct commit_sample *ret);

/* "jbd2", "xfs", "btrfs", "none". */
const char *commit_kind_name(enum commit_kind kind);
