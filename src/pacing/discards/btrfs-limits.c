/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "btrfs-limits.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "discard-request.h"

#define IOPS "iops_limit"
#define MAX_BYTES "max_discard_size"

static int number_read(int dirfd, const char *name, int64_t *ret)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_free_ char *text = NULL;
	ssize_t n;
	char *end;

	if (fd < 0)
		return -errno;
	n = fd_read_all(fd, KiB(4), &text);
	if (n < 0)
		return (int)n;
	errno = 0;
	*ret = strtoll(text, &end, 10);
	return end == text || errno != 0 || (*end != '\n' && *end != '\0') ? -EBADMSG : 0;
}

static int number_write(int dirfd, const char *name, uint64_t v)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
	char text[24];
	int len = snprintf(text, sizeof(text), "%" PRIu64, v);

	return fd < 0 || write(fd, text, (size_t)len) < 0 ? -errno : 0;
}

static int limits_read(int dirfd, struct discard_limits *ret)
{
	int64_t iops = 0, max_bytes = 0;
	int r = number_read(dirfd, IOPS, &iops);

	if (r >= 0)
		r = number_read(dirfd, MAX_BYTES, &max_bytes);
	if (r >= 0 && (iops < 0 || max_bytes < 0))
		r = -EBADMSG;
	*ret = (struct discard_limits){ (uint64_t)iops, (uint64_t)max_bytes };
	return r;
}

static bool limits_equal(const struct discard_limits *a, const struct discard_limits *b)
{
	return a->iops == b->iops && a->max_bytes == b->max_bytes;
}

/* *v: what is there, and then. */
static int number_put_back(int dirfd, const char *name, uint64_t before, uint64_t now,
			   uint64_t next, uint64_t *v)
{
	if (*v == before || (*v != now && *v != next))
		return 0;
	*v = before;
	return number_write(dirfd, name, before);
}

/* Each that has a value that was set; *ret: what is there then. */
static int limits_put_back(int dirfd, const struct kept_limits *k, struct discard_limits *ret)
{
	int r = limits_read(dirfd, ret);

	if (r >= 0)
		r = number_put_back(dirfd, IOPS, k->before.iops, k->now.iops, k->next.iops,
				    &ret->iops);
	if (r >= 0)
		r = number_put_back(dirfd, MAX_BYTES, k->before.max_bytes, k->now.max_bytes,
				    k->next.max_bytes, &ret->max_bytes);
	return r;
}

/* Opens the file and locks it: the one that has this name, as its last user removes it. */
static int kept_open(const char *path)
{
	struct stat named, opened;

	while (true) {
		_cleanup_close_ int fd =
			open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);

		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &opened) < 0)
			return -errno;
		if (stat(path, &named) == 0 && named.st_ino == opened.st_ino)
			return fd_take(&fd);
	}
}

/* error: of putting back. Where the filesystem was unmounted there is nothing to put back any more;
 * in any other case the file tells the next one. */
static void let_go(struct btrfs_limits *l, int error)
{
	if (l->kept_fd >= 0 && (error >= 0 || error == -ENOENT || error == -ENODEV))
		(void)unlink(l->kept_path);
	fd_closep(&l->kept_fd);
	fd_closep(&l->dirfd);
}

int btrfs_limits_take(struct btrfs_limits *l, const char *sys, const char *run, const char *uuid)
{
	struct discard_limits found;
	char path[PATH_MAX];
	bool left;
	int r;

	*l = (struct btrfs_limits){ .dirfd = -1, .kept_fd = -1 };
	if (strspn(uuid, "0123456789abcdef-") != strlen(uuid) || *uuid == '\0')
		return -EINVAL;
	(void)snprintf(path, sizeof(path), "%s/fs/btrfs/%s/discard", sys, uuid);
	(void)snprintf(l->kept_path, sizeof(l->kept_path), "%s/" DISCARD_KEPT "%s", run, uuid);
	l->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (l->dirfd < 0)
		return -errno;
	l->kept_fd = kept_open(l->kept_path);
	if (l->kept_fd < 0) {
		r = l->kept_fd;
		let_go(l, r);
		return r;
	}
	/* Left by a process that was killed, perhaps while it set them. */
	left = pread(l->kept_fd, &l->kept, sizeof(l->kept), 0) == (ssize_t)sizeof(l->kept);
	r = left ? limits_put_back(l->dirfd, &l->kept, &found) : limits_read(l->dirfd, &found);
	if (r < 0)
		let_go(l, left ? r : 0);
	else
		l->kept = (struct kept_limits){ found, found, found };
	return r;
}

int btrfs_limits_set(struct btrfs_limits *l, const struct discard_limits *to)
{
	struct kept_limits *k = &l->kept;
	struct discard_limits found;
	int r = limits_read(l->dirfd, &found);

	if (r < 0)
		return r;
	if (!limits_equal(&found, &k->now))
		return -ECANCELED;
	if (limits_equal(to, &k->now))
		return 0;
	k->next = *to;
	/* First, so that there is always what to put back. */
	if (pwrite(l->kept_fd, k, sizeof(*k), 0) != (ssize_t)sizeof(*k))
		return -EIO;
	r = number_write(l->dirfd, IOPS, to->iops);
	if (r >= 0)
		r = number_write(l->dirfd, MAX_BYTES, to->max_bytes);
	if (r >= 0)
		k->now = *to;
	return r;
}

int64_t btrfs_limits_discardable(const struct btrfs_limits *l)
{
	int64_t bytes = 0;
	int r = number_read(l->dirfd, "discardable_bytes", &bytes);

	return r < 0 ? r : MAX(bytes, (int64_t)0);
}

void btrfs_limits_put_back(struct btrfs_limits *l)
{
	struct discard_limits found;

	if (l->dirfd >= 0)
		let_go(l, limits_put_back(l->dirfd, &l->kept, &found));
}

void btrfs_limits_recover(const char *sys, const char *run)
{
	_cleanup_(globfree) glob_t found = { 0 };
	struct btrfs_limits l;
	char pattern[PATH_MAX];

	(void)snprintf(pattern, sizeof(pattern), "%s/" DISCARD_KEPT "*", run);
	(void)glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *path = found.gl_pathv[i];
		int r = btrfs_limits_take(&l, sys, run, strrchr(path, '.') + 1);

		if (r >= 0)
			btrfs_limits_put_back(&l);
		else if (r == -ENOENT) /* unmounted, and they are gone with it */
			(void)unlink(path);
	}
}
