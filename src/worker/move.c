/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "move.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int rename_never_over(int from_dir, const char *from, int to_dir, const char *to)
{
	return renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

/* -EINVAL: it is none. The slash has the kernel see to that. */
static int rename_directory(int from_dir, const char *from, int to_dir, const char *to)
{
	char directory[NAME_MAX + 2];
	struct stat st;

	if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -EINVAL;
	if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	if (errno != ENOENT)
		return -errno;
	if (snprintf(directory, sizeof(directory), "%s/", from) >= (int)sizeof(directory))
		return -ENAMETOOLONG;
	if (renameat(from_dir, directory, to_dir, to) == 0)
		return 0;
	return errno == ENOTEMPTY || errno == ENOTDIR ? -EEXIST : -errno;
}

int move_out(int from_dir, const char *from, int to_dir, const char *to, bool always)
{
	int r = rename_never_over(from_dir, from, to_dir, to);

	return r == -EINVAL && always ? rename_directory(from_dir, from, to_dir, to) : r;
}

int move_back(int from_dir, const char *from, int to_dir, const char *to)
{
	int r = rename_never_over(from_dir, from, to_dir, to);

	return r == -EINVAL ? rename_directory(from_dir, from, to_dir, to) : r;
}
