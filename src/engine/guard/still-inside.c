/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "still-inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mounts.h"

/* Paths are as old as what the kernel remembers. Where another host can have moved the tree, only
 * looking its name up again asks the server, as soon as what is remembered of it has its time. */
static bool is_there(int dirfd, const char *name)
{
	struct statx sx;

	return statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		     STATX_INO, &sx) == 0 ||
	       (errno != ENOENT && errno != ESTALE);
}

int still_inside(int dirfd, const char *name, int fd)
{
	char top[PATH_MAX + NAME_MAX + 2], path[PATH_MAX + 1];
	ssize_t len = fd_path(dirfd, top, PATH_MAX + 1);
	ssize_t path_len = fd_path(fd, path, sizeof(path));
	struct statx sx;
	bool gone;

	if (len > 0 && path_len > 0 && path_join(top, sizeof(top), name) &&
	    path_beneath(path, top) && is_there(dirfd, name))
		return 1;
	/* A directory that is gone has nothing in it that could be deleted wrongly, and a path that
	 * says so in words which may just as well be a name. Asked last: it may go at any moment.
	 * Where a server does not know it any more (MooseFS), names in it cannot be removed
	 * either. */
	gone = statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_NLINK, &sx) < 0
		       ? errno == ENOENT
		       : sx.stx_nlink == 0;
	if (gone)
		return 1;
	return len < 0 ? (int)len : path_len < 0 ? (int)path_len : 0;
}
