/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "directory.h"

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
#include "base/mounts.h"

#define STAGING ".reclaim"

/* Is one of the path's components that of staging? */
static bool has_staging(const char *path)
{
	for (const char *p = path; (p = strstr(p, "/" STAGING)); p++) {
		char end = p[strlen("/" STAGING)];

		if (end == '\0' || end == '/')
			return true;
	}
	return false;
}

/* What is in staging is somebody's accepted job, through whatever mount it is seen. */
static bool in_staging(const struct session_dir *d, const struct protect *p)
{
	const struct mount *m = mounts_by_id(protect_mounts(p), d->found.id.mnt_id);

	return has_staging(d->path) || (m && has_staging(m->root));
}

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
	d->refusal = protect_check_content(p, fd);
	d->error = -EPERM;
	if (!d->refusal && in_staging(d, p))
		d->refusal = "belongs to reclaimd itself";
	if (d->refusal)
		return;
	d->refusal = directory_closed(fd, &d->found);
	d->error = -EACCES;
}

/* Not by its directory, but by what it is. */
static const char *name_closed(const struct session_dir *d, const struct found *f)
{
	uid_t uid = geteuid();

	if (f->attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND))
		return "cannot be removed: it is immutable or append-only (see lsattr(1))";
	if ((d->found.id.mode & S_ISVTX) && uid != 0 && uid != f->uid && uid != d->found.uid)
		return "belongs to somebody else, in a directory in which only owners may remove "
		       "(sticky bit)";
	return NULL;
}

int directory_validate(const struct session_dir *d, int fd, const char *name,
		       const struct protect *p, struct found *ret, const char **ret_why)
{
	int r = found_at(fd, name, ret);

	*ret_why = NULL;
	/* Who may not search a directory learns nothing about what is in it. */
	if (r == -EACCES)
		*ret_why = "cannot be reached: permission denied";
	if (r == -ENOENT)
		*ret_why = "does not exist";
	if (r < 0)
		return r;
	*ret_why = d->refusal;
	if (*ret_why)
		return d->error;
	if ((ret->attributes & STATX_ATTR_MOUNT_ROOT) || ret->id.mnt_id != d->found.id.mnt_id) {
		*ret_why = "is a mount point";
		return -EXDEV;
	}
	*ret_why = strcmp(name, STAGING) == 0 ? "belongs to reclaimd itself"
		   : d->near                  ? protect_check(p, fd, name, &ret->id)
					      : NULL;
	if (*ret_why)
		return -EPERM;
	*ret_why = name_closed(d, ret);
	return *ret_why ? -EACCES : 0;
}

static const char *failure_name(int error)
{
	switch (-error) {
	case ENOENT:
		return "NoSuchPath";
	case EACCES:
	case EROFS:
		return "NotAuthorized";
	case EPERM:
		return "Protected";
	case EXDEV:
		return "CrossesMount";
	case ELOOP:
	case ENOTDIR:
	case ENAMETOOLONG:
	case EINVAL:
		return "InvalidPath";
	case ESTALE:
		return "IdentityChanged";
	case E2BIG:
		return "LimitExceeded";
	case ENOSYS:
	case EOPNOTSUPP:
		return "Unsupported";
	default:
		return "Failed";
	}
}

void failure_fill(struct failure_text *f, int error, const char *dir, const char *name,
		  const char *why)
{
	_cleanup_free_ char *d = escape_name(dir), *n = escape_name(name ? name : "");
	bool slash = name && dir[0] && dir[strlen(dir) - 1] != '/';

	f->name = failure_name(error);
	safe_text_format(&f->text, "%s%s%s: %s", d ? d : "", slash ? "/" : "", n ? n : "",
			 why ? why : strerror(-error));
}
