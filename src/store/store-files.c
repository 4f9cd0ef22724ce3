/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "store-files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

/* A second in all. */
#define LOCK_TRIES 50
#define LOCK_AGAIN_NSEC 20000000

static int fail(int e, const char **ret_why, const char *why)
{
	*ret_why = why;
	return e;
}

/* Locks the state directory with a file that only we can open: any user who may read the directory
 * could hold a lock on the directory itself. Returns the file's descriptor or a negative errno.
 *
 * A process that was just being started when the last reclaimd was killed still has a copy of the
 * descriptor, and the lock with it, until it executes another program. */
static int lock_take(int dir_fd)
{
	const struct timespec pause = { .tv_nsec = LOCK_AGAIN_NSEC };
	_cleanup_close_ int fd =
		openat(dir_fd, STORE_FILE_LOCK, O_CREAT | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	/* Somebody has made it readable. */
	if ((st.st_mode & 07777) != 0600 && fchmod(fd, 0600) < 0)
		return -errno;
	for (int tries = 0; (r = flock(fd, LOCK_EX | LOCK_NB)) < 0; tries++) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || tries == LOCK_TRIES)
			break;
		(void)nanosleep(&pause, NULL);
	}
	return r < 0 ? -errno : fd_take(&fd);
}

int files_open_dir(const char *dir, int *ret_lock_fd, const char **ret_why)
{
	_cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return fail(
			-EPERM, ret_why,
			"the state directory is not a directory (nor may it be a symbolic link)");
	if (fd < 0)
		return fail(-errno, ret_why,
			    errno == ENOENT ? "the state directory does not exist"
					    : "the state directory cannot be opened");
	if (fstat(fd, &st) < 0)
		return fail(-errno, ret_why, "the state directory cannot be read");
	if (st.st_uid != geteuid())
		return fail(-EPERM, ret_why,
			    "the state directory belongs to another user than reclaimd runs as");
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return fail(-EPERM, ret_why,
			    "other users may write the state directory: make it mode 0700");
	*ret_lock_fd = lock_take(fd);
	if (*ret_lock_fd < 0)
		return fail(*ret_lock_fd == -EWOULDBLOCK ? -EBUSY : *ret_lock_fd, ret_why,
			    *ret_lock_fd == -EWOULDBLOCK
				    ? "another reclaimd uses the state directory"
				    : "the state directory cannot be locked");
	return fd_take(&fd);
}

static bool leftover(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0;
}

int files_find(int dir_fd, const char **ret_why)
{
	struct stat st;

	if (fstatat(dir_fd, STORE_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return fail(-errno, ret_why, "the job store cannot be looked at");
		return leftover(dir_fd, STORE_FILE "-wal") ||
				       leftover(dir_fd, STORE_FILE "-journal")
			       ? FOUND_LEFTOVER
			       : FOUND_NOTHING;
	}
	if (!S_ISREG(st.st_mode))
		return fail(-EPERM, ret_why,
			    "the job store (" STORE_FILE ") is not a regular file");
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return fail(-EPERM, ret_why,
			    "the job store (" STORE_FILE
			    ") belongs to another user, or other users may write it");
	return st.st_size > 0 ? FOUND_FILE : FOUND_EMPTY;
}

int files_make_new(int dir_fd)
{
	static const char *const names[] = { STORE_FILE_NEW, STORE_FILE_NEW "-journal" };
	_cleanup_close_ int fd = -1;

	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		if (unlinkat(dir_fd, names[i], 0) < 0 && errno != ENOENT)
			return -errno;
	/* SQLite gives the files beside it the same mode. */
	fd = openat(dir_fd, STORE_FILE_NEW, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	return fd < 0 ? -errno : 0;
}

int files_publish_new(int dir_fd)
{
	if (renameat2(dir_fd, STORE_FILE_NEW, dir_fd, STORE_FILE, RENAME_NOREPLACE) < 0)
		return -errno;
	return fsync(dir_fd) < 0 ? -errno : 0;
}

int files_read(int dir_fd)
{
	static const char *const names[] = { STORE_FILE, STORE_FILE "-wal" };
	char buf[KiB(64)];

	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		_cleanup_close_ int fd =
			openat(dir_fd, names[i], O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		ssize_t n;

		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0)
			return -errno;
		do
			n = read(fd, buf, sizeof(buf));
		while (n > 0);
		if (n < 0)
			return -errno;
	}
	return 0;
}

static bool has_room(int dir_fd, uint64_t bytes)
{
	struct statvfs st;

	/* One without a limit, as ramfs, states no size and nothing free. */
	return fstatvfs(dir_fd, &st) < 0 || st.f_blocks == 0 ||
	       (uint64_t)st.f_bfree * st.f_frsize >= bytes;
}

int files_reserve_make(int dir_fd, uint64_t bytes)
{
	_cleanup_close_ int fd =
		openat(dir_fd, STORE_FILE_RESERVE, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    (uint64_t)st.st_blocks * 512 >= bytes)
		return 0;
	/* Had it only just enough room, it would be given up again in a moment. */
	if (!has_room(dir_fd, 2 * bytes))
		return -ENOSPC;
	fd_closep(&fd);
	files_reserve_give(dir_fd);
	fd = openat(dir_fd, STORE_FILE_RESERVE, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = posix_fallocate(fd, 0, (off_t)bytes);
	if (r == 0 && fsync(fd) < 0)
		r = errno;
	if (r != 0)
		files_reserve_give(dir_fd);
	return -r;
}

void files_reserve_give(int dir_fd)
{
	/* If it cannot be removed, it is as if there were none. */
	(void)unlinkat(dir_fd, STORE_FILE_RESERVE, 0);
}

int files_name_aside(int dir_fd, char *ret_name, size_t size)
{
	time_t now = time(NULL);
	struct tm tm = { 0 };
	char when[32];

	if (!localtime_r(&now, &tm) || strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm) == 0)
		return -EOVERFLOW;
	for (unsigned int i = 0; i < 1000; i++) {
		struct stat st;

		if (i == 0)
			(void)snprintf(ret_name, size, STORE_FILE ".damaged-%s", when);
		else
			(void)snprintf(ret_name, size, STORE_FILE ".damaged-%s-%u", when, i);
		if (fstatat(dir_fd, ret_name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			return 0;
	}
	return -EEXIST;
}

int files_set_aside(int dir_fd, const char *name, bool *ret_moved)
{
	/* The log goes last: one without a database is found and put aside at the next start, but
	 * a database without its log would be taken for an older state of affairs. */
	static const char *const ends[] = { "", "-journal", "-shm", "-wal" };

	*ret_moved = false;
	for (size_t i = 0; i < ELEMENTSOF(ends); i++) {
		char from[64], to[96];

		(void)snprintf(from, sizeof(from), STORE_FILE "%s", ends[i]);
		(void)snprintf(to, sizeof(to), "%s%s", name, ends[i]);
		if (renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) == 0)
			*ret_moved = true;
		else if (errno != ENOENT)
			return -errno;
	}
	return fsync(dir_fd) < 0 ? -errno : 0;
}
