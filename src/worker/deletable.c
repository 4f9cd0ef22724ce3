/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "deletable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/guard/path-intake.h"
#include "engine/guard/protect.h"
#include "base/escape.h"
#include "base/staging-dir.h"
#include "wire/protocol.h"

/* rm(1) would be refused at once, whatever is in the directory. */
const char *directory_closed(int fd, const struct found *dir)
{
	if (dir->attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND))
		return "lies in a directory from which nothing may be removed (immutable or "
		       "append-only, see lsattr(1))";
	if (faccessat(fd, "", W_OK | X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0)
		return NULL;
	if (errno == EROFS)
		return "is on a filesystem that is mounted read-only";
	return "lies in a directory that the submitter may not change";
}

int directory_is_empty(int dirfd, const char *name)
{
	int fd = fd_open_dir(dirfd, name), r;
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *e;

	if (!d) {
		r = fd < 0 ? fd : -errno;
		fd_closep(&fd);
		return r;
	}
	while ((errno = 0, e = readdir(d)) && !is_component(e->d_name))
		;
	r = e ? 0 : errno ? -errno : 1;
	(void)closedir(d);
	return r;
}

void directory_here(int *fd, struct found *f)
{
	char path[PATH_MAX];
	const char *why;
	_cleanup_close_ int here = -1;
	struct found g;

	if (fd_path(*fd, path, sizeof(path)) < 0)
		return;
	here = intake_open_dir(path, &why);
	if (here < 0 || found_at(here, "", &g) < 0 || g.id.dev != f->id.dev ||
	    g.id.ino != f->id.ino || g.id.btime_nsec != f->id.btime_nsec)
		return;
	fd_closep(fd);
	*fd = fd_take(&here);
	*f = g;
}

void directory_check(struct session_dir *d, int fd, const struct protect *p)
{
	d->near = protect_near(p, fd);
	d->refusal = protect_check_content(p, fd, /* staged= */ false);
	d->cause = ERROR_PROTECTED;
	if (d->refusal)
		return;
	d->refusal = directory_closed(fd, &d->found);
	d->cause = d->refusal ? ERROR_NOT_AUTHORIZED : ERROR_NONE;
	d->pin = user_pin_around(fd);
}

/* Not by its directory, but by what it is. */
static const char *name_closed(const struct session_dir *d, const struct found *f)
{
	uid_t uid = geteuid();

	if (f->attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND))
		return "cannot be removed: it is immutable or append-only (see lsattr(1))";
	if ((d->found.id.mode & S_ISVTX) && uid != 0 && uid != f->uid && uid != d->found.uid)
		return "belongs to another user, in a directory in which only owners may remove "
		       "(sticky bit)";
	return NULL;
}

enum error_cause directory_validate(const struct session_dir *d, int fd, const char *name,
				    const struct protect *p, struct found *ret,
				    const char **ret_why)
{
	int r = found_at(fd, name, ret);

	if (r < 0) {
		/* A user that may not search a directory learns nothing about what is in it. */
		*ret_why = intake_words(r);
		return error_from_errno(r, ERROR_AT_PATH);
	}
	*ret_why = d->refusal;
	if (d->cause)
		return d->cause;
	if ((ret->attributes & STATX_ATTR_MOUNT_ROOT) || ret->id.mnt_id != d->found.id.mnt_id) {
		*ret_why = "is a mount point";
		return ERROR_CROSSES_MOUNT;
	}
	if (d->near || strcmp(name, STAGING_DIR) == 0)
		*ret_why = protect_check(p, fd, name, &ret->id, /* staged= */ false);
	else
		*ret_why = protect_check_owner(p, ret->uid, &ret->id);
	if (*ret_why)
		return ERROR_PROTECTED;
	*ret_why = name_closed(d, ret);
	return *ret_why ? ERROR_NOT_AUTHORIZED : ERROR_NONE;
}

void failure_fill(struct failure_text *f, enum error_cause cause, const char *dir, const char *name,
		  const char *why)
{
	_cleanup_free_ char *d = escape_name(dir), *n = escape_name(name ? name : "");
	bool slash = name && dir[0] && dir[strlen(dir) - 1] != '/';

	f->cause = cause;
	safe_text_format(&f->text, "%s%s%s: %s", d ? d : "", slash ? "/" : "", n ? n : "", why);
}
