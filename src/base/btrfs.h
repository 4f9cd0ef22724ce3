/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* btrfs: what a filesystem is called in sysfs, and how what was done to it becomes durable. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Writes the filesystem's UUID as text (37 bytes). fd is any directory or regular file on it, open
 * for reading. Returns 0 or a negative errno. */
int btrfs_uuid(int fd, char *buf, size_t len);

/* Is the file, or the directory, on btrfs? Any descriptor will do. */
bool btrfs_has(int fd);

/* Commits what was done to the filesystem so far: an fsync of a directory makes durable what is in
 * it, but not that a name came there from another one. fd is any file's, or that of a directory
 * that may only be pinned (O_PATH). Returns 0 or a negative errno. */
int btrfs_commit(int fd);

/* Returns the number of subvolumes that were deleted and whose space btrfs has not freed yet, or a
 * negative errno: -ENOTTY if this is not btrfs, or the kernel is older than 6.13. fd is open for
 * reading. */
int btrfs_deleted_subvolumes(int fd);
