/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* File descriptors: closing, opening one component, the identity of a file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "macros.h"

/* The identity of a file, whatever it is called (I3 of SECURITY.md). btime_nsec is 0 where the
 * filesystem has none. */
struct identity {
	uint64_t dev;
	uint64_t ino;
	uint64_t mnt_id; /* 0 where the kernel does not say (before 5.8) */
	int64_t btime_nsec;
	uint32_t mode;
	bool is_mount_root;
	uint32_t nlink;
	uint64_t size_bytes;
	uint64_t blocks_bytes;
};

/* Closes *fd unless negative, keeps errno, and leaves -1 behind. */
void fd_closep(int *fd);
#define _cleanup_close_ _cleanup_(fd_closep)

/* Gives a descriptor away: returns it and leaves -1, so that cleaning up does not close it. */
static inline int fd_take(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/* Opens the single component `name` beneath dirfd with openat2(2): no symbolic link is followed, no
 * mount crossed. Returns the descriptor or a negative errno; -EXDEV means a mount point. */
int fd_open_beneath(int dirfd, const char *name, int flags);

/* Opens the directory `name` beneath dirfd for listing, as fd_open_beneath. */
int fd_open_dir(int dirfd, const char *name);

struct statx;

/* Makes what was done in a directory durable, which may only be pinned (O_PATH). Returns 0 or a
 * negative errno. */
int fd_sync_dir(int fd);

/* How statx(2) is asked for an identity. */
#define IDENTITY_FLAGS (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT)
#define IDENTITY_MASK (STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID)

/* What statx(2) said, asked for IDENTITY_MASK. */
struct identity identity_of(const struct statx *sx);

/* Fills *ret for `name` beneath dirfd (the final component is not followed; an empty name is dirfd
 * itself). Returns 0 or a negative errno. */
int fd_identity(int dirfd, const char *name, struct identity *ret);

/* Fills only dev, ino, mnt_id, the type in mode, and is_mount_root of a path beneath dirfd (an
 * empty one is dirfd itself, which must not be AT_FDCWD then: -ENOENT) from what the kernel has at
 * hand: once it is found, no server, and no process that serves a filesystem, is asked. flags: 0 or
 * AT_SYMLINK_NOFOLLOW. Returns 0 or a negative errno. */
int fd_whereabouts(int dirfd, const char *path, int flags, struct identity *ret);

/* Sets *ret to the id of the mount that fd is on. Never waits for the filesystem. Returns 0 or a
 * negative errno. */
int fd_mount_id(int fd, uint64_t *ret);

/* Returns true if fd was opened with O_DIRECTORY, which the kernel allows for directories only.
 * Never waits for the filesystem. */
bool fd_is_directory(int fd);

/* True if both are the same file: device, inode, mount and birth time all agree. */
bool identity_equal(const struct identity *a, const struct identity *b);

/* Reads the path the kernel has for fd into buf. Returns the length or a negative errno;
 * -ENAMETOOLONG where the path does not fit PATH_MAX. */
ssize_t fd_path(int fd, char *buf, size_t size);

/* Reads a whole small file of fewer than max bytes. *ret is the caller's to free, and ends with a
 * NUL. Returns the length in bytes, -EFBIG, or another negative errno of opening or reading it. */
ssize_t fd_read_file(const char *path, size_t max, char **ret);

/* The same of what fd is open for, from its beginning where it has one, whose offset stays as it
 * is.
 */
ssize_t fd_read_all(int fd, size_t max, char **ret);

/* Microseconds of CLOCK_MONOTONIC. */
uint64_t now_usec(void);

/* Microseconds of CLOCK_BOOTTIME, which goes on while the machine is suspended: the same for all
 * processes of this boot. */
uint64_t boot_usec(void);
