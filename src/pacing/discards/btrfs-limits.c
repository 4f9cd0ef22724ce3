/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "btrfs-limits.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
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

/* What is in the file. */
struct kept {
	struct discard_limits before, now;
};

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

static int limits_write(int dirfd, const struct discard_limits *l)
{
	int r = number_write(dirfd, IOPS, l->iops);

	return r < 0 ? r : number_write(dirfd, MAX_BYTES, l->max_bytes);
}

static bool limits_equal(const struct discard_limits *a, const struct discard_limits *b)
{
	return a->iops == b->iops && a->max_bytes == b->max_bytes;
}

/* Each that has the value that was set; *ret: what is there then. */
static int limits_put_back(int dirfd, const struct kept *k, struct discard_limits *ret)
{
	int r = limits_read(dirfd, ret);

	if (r >= 0 && ret->iops == k->now.iops) {
		ret->iops = k->before.iops;
		r = number_write(dirfd, IOPS, ret->iops);
	}
	if (r >= 0 && ret->max_bytes == k->now.max_bytes) {
		ret->max_bytes = k->before.max_bytes;
		r = number_write(dirfd, MAX_BYTES, ret->max_bytes);
	}
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

/* Before anything is set, so that there is always what to put back. */
static int kept_write(const struct btrfs_limits *l, const struct discard_limits *now)
{
	struct kept k = { l->before, *now };

	return pwrite(l->kept_fd, &k, sizeof(k), 0) == (ssize_t)sizeof(k) ? 0 : -EIO;
}

static void let_go(struct btrfs_limits *l)
{
	if (l->kept_fd >= 0)
		(void)unlink(l->kept_path);
	fd_closep(&l->kept_fd);
	fd_closep(&l->dirfd);
}

int btrfs_limits_take(struct btrfs_limits *l, const char *sys, const char *run, const char *uuid)
{
	char path[PATH_MAX];
	struct kept k;
	int r;

	*l = (struct btrfs_limits){ .dirfd = -1, .kept_fd = -1 };
	if (strspn(uuid, "0123456789abcdef-") != strlen(uuid) || *uuid == '\0')
		return -EINVAL;
	(void)snprintf(path, sizeof(path), "%s/fs/btrfs/%s/discard", sys, uuid);
	(void)snprintf(l->kept_path, sizeof(l->kept_path), "%s/" DISCARD_KEPT "%s", run, uuid);
	l->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (l->dirfd < 0)
		return -errno;
	r = kept_open(l->kept_path);
	if (r < 0) {
		let_go(l);
		return r;
	}
	l->kept_fd = r;
	/* Left by a process that was killed, perhaps between one and the other. */
	if (pread(l->kept_fd, &k, sizeof(k), 0) == (ssize_t)sizeof(k))
		r = limits_put_back(l->dirfd, &k, &l->now);
	else
		r = limits_read(l->dirfd, &l->now);
	l->before = l->now;
	if (r < 0)
		let_go(l);
	return r;
}

int btrfs_limits_set(struct btrfs_limits *l, const struct discard_limits *to)
{
	struct discard_limits found;
	int r = limits_read(l->dirfd, &found);

	if (r < 0)
		return r;
	if (!limits_equal(&found, &l->now))
		return -ECANCELED;
	if (limits_equal(to, &l->now))
		return 0;
	r = kept_write(l, to);
	if (r >= 0)
		r = limits_write(l->dirfd, to);
	if (r < 0)
		return r;
	l->now = *to;
	return 0;
}

int64_t btrfs_limits_discardable(const struct btrfs_limits *l)
{
	int64_t bytes = 0;
	int r = number_read(l->dirfd, "discardable_bytes", &bytes);

	return r < 0 ? r : MAX(bytes, (int64_t)0);
}

void btrfs_limits_put_back(struct btrfs_limits *l)
{
	const struct kept k = { l->before, l->now };

	if (l->dirfd >= 0)
		(void)limits_put_back(l->dirfd, &k, &l->now);
	let_go(l);
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
