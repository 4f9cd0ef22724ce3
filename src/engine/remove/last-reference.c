/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "last-reference.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/gate.h"

struct last_reference_local {
	struct last_reference face;
	pthread_mutex_t lock; /* one file at a time: an event names its watch only by number */
	int watch_fd;         /* -1: there was no file yet */
};

struct handle {
	struct file_handle h;
	unsigned char bytes[MAX_HANDLE_SZ];
};

static int handle_of(int fd, struct handle *ret)
{
	int mount_id;

	*ret = (struct handle){ .h.handle_bytes = MAX_HANDLE_SZ };
	return name_to_handle_at(fd, "", &ret->h, &mount_id, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

static int handle_open(int dirfd, struct handle *h, int flags)
{
	int fd = open_by_handle_at(dirfd, &h->h, flags | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* A rule of a set that is never enforced holds the inode, and no dentry. Returns the set. */
static int inode_pin(int fd)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE };
	struct landlock_path_beneath_attr rule = { .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE,
						   .parent_fd = fd };
	_cleanup_close_ int set = (int)syscall(SYS_landlock_create_ruleset, &attr,
					       sizeof(attr.handled_access_fs), /* flags= */ 0);

	if (set < 0)
		return errno == ENOSYS ? -EOPNOTSUPP : -errno;
	if (syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return -errno;
	return fd_take(&set);
}

/* Reads all events. True if one of them is the end of a dentry of the file that was watched. */
static bool ended(int watch_fd, int watch)
{
	alignas(struct inotify_event) char buf[KiB(4)];
	bool yes = false;
	ssize_t n;

	while ((n = read(watch_fd, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *e = (const void *)(buf + at);

			yes = yes || (e->wd == watch && (e->mask & IN_DELETE_SELF));
			at += (ssize_t)(sizeof(*e) + e->len);
		}
	return yes;
}

/* Takes fd over, of a file that has no other dentry. True if nothing else holds this one. */
static bool is_last(struct last_reference_local *l, int fd)
{
	char link[sizeof("/proc/self/fd/") + 12];
	bool last;
	int watch;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	pthread_mutex_lock(&l->lock);
	if (l->watch_fd < 0)
		l->watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	watch = inotify_add_watch(l->watch_fd, link, IN_DELETE_SELF);
	gate("last-reference", "watched");
	fd_closep(&fd);
	last = watch >= 0 && ended(l->watch_fd, watch);
	if (watch >= 0 && !last) {
		(void)inotify_rm_watch(l->watch_fd, watch);
		(void)ended(l->watch_fd, watch);
	}
	pthread_mutex_unlock(&l->lock);
	return last;
}

static bool is_file(int fd, const struct identity *id)
{
	struct identity now;

	return fd_identity(fd, "", &now) >= 0 && identity_equal(&now, id) && now.nlink == 0;
}

/* Its dentry never had a name, as those have that are made for a handle. */
static bool is_nameless(int fd)
{
	char link[sizeof("/proc/self/fd/") + 12], path[4];

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlinkat(AT_FDCWD, link, path, sizeof(path)) == 1 && path[0] == '/';
}

/* Steps 1 to 4 of the header. */
static int reopen(struct last_reference_local *l, int *fd, int dirfd, const struct identity *id)
{
	_cleanup_close_ int set = inode_pin(*fd), again = -1;
	struct handle h;
	int r = set < 0 ? set : handle_of(*fd, &h);

	fd_closep(fd);
	if (r < 0)
		return r;
	again = handle_open(dirfd, &h, O_PATH);
	if (again < 0)
		return again;
	if (!is_file(again, id))
		return -ESTALE;
	if (!is_nameless(again) || !is_last(l, fd_take(&again)))
		return -EBUSY;
	again = handle_open(dirfd, &h, O_WRONLY | O_NONBLOCK | O_NOCTTY);
	if (again < 0)
		return again;
	if (!is_nameless(again))
		return -EBUSY;
	return is_file(again, id) ? fd_take(&again) : -ESTALE;
}

static int take(void *userdata, int fd, int dirfd)
{
	_cleanup_close_ int own = fd;
	/* One that was only pinned would not do for a handle. */
	_cleanup_close_ int dir = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct identity id, at;
	int flags = fcntl(fd, F_GETFL), r;

	if (dir < 0 || flags < 0)
		return -errno;
	r = fd_identity(fd, "", &id);
	if (r >= 0)
		r = fd_identity(dir, "", &at);
	if (r < 0)
		return r;
	/* What is given back is not more than what came: the same file by the same mount. */
	if (!S_ISREG(id.mode) || id.nlink != 0 || (flags & (O_PATH | O_APPEND)) ||
	    (flags & O_ACCMODE) == O_RDONLY || id.mnt_id == 0 || id.mnt_id != at.mnt_id)
		return -EBADF;
	return reopen(userdata, &own, dir, &id);
}

int last_reference_check(int dirfd)
{
	_cleanup_close_ int dir = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), set = -1,
			    again = -1;
	struct handle h;
	int r;

	if (dir < 0)
		return -errno;
	set = inode_pin(dir);
	r = set < 0 ? set : handle_of(dir, &h);
	if (r < 0)
		return r;
	again = handle_open(dir, &h, O_PATH);
	return MIN(again, 0);
}

int last_reference_local_new(struct last_reference_local **ret)
{
	struct last_reference_local *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	*l = (struct last_reference_local){ .face = { .take = take, .userdata = l },
					    .watch_fd = -1 };
	pthread_mutex_init(&l->lock, NULL);
	*ret = l;
	return 0;
}

struct last_reference_local *last_reference_local_free(struct last_reference_local *l)
{
	if (!l)
		return NULL;
	fd_closep(&l->watch_fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
	return NULL;
}

const struct last_reference *last_reference_local(struct last_reference_local *l)
{
	return l ? &l->face : NULL;
}
