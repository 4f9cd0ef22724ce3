/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fd.h"
#include "base/mounts.h"
#include "base/units.h"
#include "ctl/common/options.h"
#include "ctl/output/messages.h"

void trim_path_skip(struct trim_path *p, const char *format, ...)
{
	va_list ap;

	p->outcome = TRIM_SKIPPED;
	va_start(ap, format);
	(void)vsnprintf(p->why, sizeof(p->why), format, ap);
	va_end(ap);
}

void trim_path_fail(struct trim_path *p, const char *format, ...)
{
	va_list ap;

	p->outcome = TRIM_FAILED;
	va_start(ap, format);
	(void)vsnprintf(p->why, sizeof(p->why), format, ap);
	va_end(ap);
	complain(p->path, "%s", p->why);
}

/* Keeps why it is not trimmed; what is an error is said. */
static void tell_obstacle(struct trim_path *p)
{
	const struct trim_target *t = &p->target;

	switch (t->obstacle) {
	case TRIM_POSSIBLE:
		break;
	case TRIM_NO_DISCARD:
		if (t->crypt)
			trim_path_skip(p,
				       "%s is encrypted, and dm-crypt passes no discards on unless "
				       "it is opened with allow-discards (see crypttab(5))",
				       t->device);
		else
			trim_path_skip(p, "%s does not discard", t->device);
		break;
	case TRIM_READ_ONLY:
		trim_path_fail(p, "cannot be trimmed: the filesystem is mounted read-only");
		break;
	case TRIM_OVERLAY:
		trim_path_fail(p, "cannot be trimmed: an overlay has no space of its own; give a "
				  "path on the filesystem of its upper directory");
		break;
	case TRIM_NO_DEVICE:
		trim_path_fail(p, "cannot be trimmed: %s has no block device here (%s)",
			       t->type[0] ? t->type : "the filesystem", t->none);
		break;
	case TRIM_UNKNOWN:
		trim_path_fail(p, "cannot be trimmed: %s has no FITRIM that is known", t->type);
		break;
	}
}

static const struct trim_path *same_filesystem(const struct trim_paths *p, dev_t dev)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].target.dev == dev)
			return &p->v[i];
	return NULL;
}

/* Takes over fd. Returns the new one, or NULL if out of memory. */
static struct trim_path *path_add(struct trim_paths *p, const char *path, int fd,
				  const struct trim_target *t)
{
	struct trim_path *added = array_add(&p->v, &p->n, sizeof(*added));

	if (!added) {
		fd_closep(&fd);
		return NULL;
	}
	*added = (struct trim_path){ .path = strdup(path), .fd = fd, .target = *t };
	return added->path ? added : NULL;
}

void trim_path_check_min(struct trim_path *p, uint64_t min_bytes)
{
	char least[16], size[16];

	if (p->outcome == TRIM_WAITS && min_bytes > p->target.size_bytes)
		trim_path_fail(p, "--min=%s is more than the filesystem has (%s)",
			       size_format(least, sizeof(least), min_bytes),
			       size_format(size, sizeof(size), p->target.size_bytes));
}

/* A directory or a file, and no device, whose opening might do something. Returns a descriptor or a
 * negative errno: -ENOTBLK for a block device, -EMEDIUMTYPE for other things. */
static int path_open(const char *path)
{
	_cleanup_close_ int pin = open(path, O_PATH | O_CLOEXEC);
	char link[sizeof("/proc/self/fd/") + 12];
	struct stat st;
	int fd;

	if (pin < 0 || fstat(pin, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return S_ISBLK(st.st_mode) ? -ENOTBLK : -EMEDIUMTYPE;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", pin);
	fd = open(link, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void tell_absent(const char *path, int error)
{
	if (error == -ENOTBLK)
		complain(path, "is a block device: give a path on the filesystem that is on it");
	else if (error == -EMEDIUMTYPE)
		complain(path, "is neither a directory nor a file");
	else
		complain(path[0] ? path : "''", "%s", strerror(-error));
}

static int path_find(struct trim_paths *p, const struct options *o, const char *path)
{
	int fd = path_open(path), r = fd;
	const struct trim_path *same;
	struct trim_path *added;
	struct trim_target t;

	if (r >= 0)
		r = trim_target_find(&t, fd);
	if (r < 0) {
		fd_closep(&fd);
		if (r == -ENOMEM)
			return r;
		tell_absent(path, r);
		p->absent++;
		return 0;
	}
	same = same_filesystem(p, t.dev);
	if (same) {
		fd_closep(&fd);
		if (o->verbose)
			complain(path, "is on the same filesystem as %s, which is trimmed once",
				 same->path);
		return 0;
	}
	added = path_add(p, path, fd, &t);
	if (!added)
		return -ENOMEM;
	tell_obstacle(added);
	trim_path_check_min(added, o->min_bytes);
	return 0;
}

/* What --all does not even open: without a block device, or with a server that may not answer. */
static const char *left_out(const struct mount *m)
{
	if (major(m->dev) == 0 && strcmp(m->type, "btrfs") != 0)
		return "no block device";
	if (mount_may_hang(m))
		return "a process or server may keep it waiting";
	return mount_read_only(m) ? "read-only" : NULL;
}

static const char *obstacle_text(const struct trim_target *t)
{
	static const char *const texts[] = {
		[TRIM_POSSIBLE] = NULL,
		[TRIM_NO_DISCARD] = "the device does not discard",
		[TRIM_READ_ONLY] = "read-only",
		[TRIM_OVERLAY] = "an overlay",
		[TRIM_NO_DEVICE] = "no block device",
		[TRIM_UNKNOWN] = "the filesystem has no FITRIM that is known",
	};

	return texts[t->obstacle];
}

/* Returns why it is not added, or NULL. *ret_error: a negative errno if there is no memory. */
static const char *mount_add(struct trim_paths *p, const struct mount *m, uint64_t min_bytes,
			     int *ret_error)
{
	const char *why = left_out(m);
	struct trim_target t;
	uint64_t id;
	int fd;

	if (why)
		return why;
	if (same_filesystem(p, m->dev))
		return "mounted elsewhere, too";
	fd = open(m->target, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR ? "a file is mounted there" : strerror(errno);
	if (fd_mount_id(fd, &id) < 0 || id != m->id)
		why = "another filesystem is mounted upon it";
	else if (trim_target_find(&t, fd) < 0)
		why = "its devices are not known";
	else if (obstacle_text(&t))
		why = obstacle_text(&t);
	else if (min_bytes > t.size_bytes)
		why = "--min= is more than it has";
	if (why)
		fd_closep(&fd);
	else if (!path_add(p, m->target, fd, &t))
		*ret_error = -ENOMEM;
	return why;
}

static int all_find(struct trim_paths *p, const struct options *o)
{
	struct mounts mounts = { 0 };
	int r = mounts_read(&mounts, "/proc/self/mountinfo");

	for (size_t i = 0; r >= 0 && i < mounts.n; i++) {
		const char *why = mount_add(p, &mounts.v[i], o->min_bytes, &r);

		if (why && o->verbose)
			complain(mounts.v[i].target, "left out: %s", why);
	}
	mounts_done(&mounts);
	return r;
}

int trim_paths_find(struct trim_paths *p, const struct options *o)
{
	int r = o->all ? all_find(p, o) : 0;

	for (size_t i = 0; r >= 0 && i < o->n_paths; i++)
		r = path_find(p, o, o->paths[i]);
	if (r >= 0)
		return 0;
	if (r == -ENOMEM)
		complain("trim", "out of memory; nothing was trimmed");
	else
		complain("trim", "the mount table cannot be read: %s; nothing was trimmed",
			 strerror(-r));
	return EXIT_FAILED;
}

void trim_paths_done(struct trim_paths *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].path);
		fd_closep(&p->v[i].fd);
	}
	free(p->v);
	*p = (struct trim_paths){ 0 };
}
