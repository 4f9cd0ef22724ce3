/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The space that a run really gains: free space of the filesystem before it and after its job, as
 * df(1) shows it. Unlinking a file frees nothing if a snapshot, a reflink or a process still has
 * its data, and other programs take space at the same time. */
#pragma once

#include <stdint.h>

#include "base/escape.h"

/* Returns the free bytes of the filesystem of fd, or 0 if it does not tell. */
uint64_t gain_free_bytes(int fd);

/* Waits until btrfs has freed the subvolumes that were deleted, for ten minutes at most: until then
 * it is not known how much space there will be. fd is any directory, also one that is only pinned.
 * Returns 0, or -ETIMEDOUT. */
int gain_wait_for_subvolumes(int fd);

/* Waits until the filesystem of fd has gained what was expected since `before_bytes` were free.
 * Filesystems free space some time after the unlinking, so it waits for 35 s at most on btrfs, and
 * for 5 s elsewhere. Returns the gain; 0 if less is free than before. */
uint64_t gain_wait(int fd, uint64_t before_bytes, uint64_t expected_bytes);

/* Describes that a run gained next to nothing, and what may be the cause on the filesystem of fd.
 */
void gain_explain(struct safe_text *ret, int fd, uint64_t expected_bytes, uint64_t gained_bytes);
