/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "array.h"

/* openat2 answers EAGAIN when a rename anywhere raced with a restricted lookup; a single component
 * rarely meets it, and a hundred tries in a row mean that something else is wrong. */
#define OPEN_TRIES 100

void fd_closep(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = saved;
}

int fd_open_beneath(int dirfd, const char *name, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV |
			   RESOLVE_NO_MAGICLINKS,
	};
	long fd = -1;

	for (int i = 0; i < OPEN_TRIES; i++) {
		fd = syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != EAGAIN && errno != EINTR)
			break;
	}
	return -errno;
}

int fd_open_dir(int dirfd, const char *name)
{
	return fd_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
}

struct identity identity_of(const struct statx *sx)
{
	return (struct identity){
		.dev = makedev(sx->stx_dev_major, sx->stx_dev_minor),
		.ino = sx->stx_ino,
		.mnt_id = sx->stx_mask & STATX_MNT_ID ? sx->stx_mnt_id : 0,
		.btime_nsec = sx->stx_mask & STATX_BTIME
				      ? sx->stx_btime.tv_sec * 1000000000LL + sx->stx_btime.tv_nsec
				      : 0,
		.mode = sx->stx_mode,
		.is_mount_root = sx->stx_attributes & STATX_ATTR_MOUNT_ROOT,
		.nlink = sx->stx_nlink,
		.size_bytes = sx->stx_size,
		.blocks_bytes = sx->stx_blocks * 512,
	};
}

int fd_identity(int dirfd, const char *name, struct identity *ret)
{
	struct statx sx;

	if (statx(dirfd, name, IDENTITY_FLAGS, IDENTITY_MASK, &sx) < 0)
		return -errno;
	*ret = identity_of(&sx);
	return 0;
}

int fd_whereabouts(int dirfd, const char *path, int flags, struct identity *ret)
{
	struct identity id;
	struct statx sx;

	/* An empty path is no name for where this process works. */
	if (!path[0] && dirfd != AT_FDCWD)
		flags |= AT_EMPTY_PATH;
	if (statx(dirfd, path, flags | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		  STATX_TYPE | STATX_INO | STATX_MNT_ID, &sx) < 0)
		return -errno;
	id = identity_of(&sx);
	*ret = (struct identity){ .dev = id.dev,
				  .ino = id.ino,
				  .mnt_id = id.mnt_id,
				  .mode = id.mode & S_IFMT,
				  .is_mount_root = id.is_mount_root };
	return 0;
}

int fd_mount_id(int fd, uint64_t *ret)
{
	char path[sizeof("/proc/self/fdinfo/") + 12];
	_cleanup_free_ char *text = NULL;
	const char *id;
	ssize_t len;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	len = fd_read_file(path, KiB(64), &text);
	if (len < 0)
		return (int)len;
	id = text ? strstr(text, "\nmnt_id:") : NULL;
	if (!id || sscanf(id, "\nmnt_id: %" SCNu64, ret) != 1)
		return -ENODATA;
	return 0;
}

bool fd_is_directory(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	/* O_TMPFILE contains O_DIRECTORY. */
	return flags >= 0 && (flags & O_TMPFILE) == O_DIRECTORY;
}

bool identity_equal(const struct identity *a, const struct identity *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->mnt_id == b->mnt_id &&
	       a->btime_nsec == b->btime_nsec && (a->mode & S_IFMT) == (b->mode & S_IFMT);
}

int fd_sync_dir(int fd)
{
	_cleanup_close_ int own = -1;

	if (fsync(fd) == 0)
		return 0;
	if (errno != EBADF)
		return -errno;
	own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return own < 0 || fsync(own) < 0 ? -errno : 0;
}

ssize_t fd_path(int fd, char *buf, size_t size)
{
	char link[sizeof("/proc/self/fd/") + 12];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, buf, size);
	if (n < 0)
		return -errno;
	if ((size_t)n >= size)
		return -ENAMETOOLONG;
	buf[n] = '\0';
	return n;
}

ssize_t fd_read_file(const char *path, size_t max, char **ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_read_all(fd, max, ret);
}

ssize_t fd_read_all(int fd, size_t max, char **ret)
{
	_cleanup_free_ char *buf = NULL;
	size_t len = 0, cap = 0;
	ssize_t n;

	/* Not lseek and read: another thread may read the same file. */
	do {
		if (len >= max)
			return -EFBIG;
		if (array_reserve(&buf, &cap, MAX(len + 2, KiB(4)), 1) < 0)
			return -ENOMEM;
		n = pread(fd, buf + len, cap - len - 1, (off_t)len);
		if (n < 0 && errno == ESPIPE)
			n = read(fd, buf + len, cap - len - 1);
		if (n < 0)
			return -errno;
		len += (size_t)n;
	} while (n > 0);
	buf[len] = '\0';
	*ret = buf;
	buf = NULL;
	return (ssize_t)len;
}

static uint64_t clock_usec(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t now_usec(void)
{
	return clock_usec(CLOCK_MONOTONIC);
}

uint64_t boot_usec(void)
{
	return clock_usec(CLOCK_BOOTTIME);
}
