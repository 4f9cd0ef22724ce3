/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "beneath.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "util/fd.h"

int beneath(int dirfd, const char *name, int fd)
{
	char top[PATH_MAX + 1], path[PATH_MAX + 1];
	size_t name_len = strlen(name);
	ssize_t len = fd_path(dirfd, top, sizeof(top));
	ssize_t path_len;
	struct stat st;

	/* A directory that is gone has nothing in it that could be deleted wrongly, and a path that
	 * says so in words which may just as well be a name. */
	if (fstat(fd, &st) == 0 && st.st_nlink == 0)
		return 1;
	if (len < 0)
		return (int)len;
	path_len = fd_path(fd, path, sizeof(path));
	if (path_len < 0)
		return (int)path_len;
	if (len == 1)
		len = 0; /* "/" ends with the slash that separates */
	if (path_len < len + 1 + (ssize_t)name_len || memcmp(path, top, (size_t)len) != 0)
		return 0;
	if (path[len] != '/' || memcmp(path + len + 1, name, name_len) != 0)
		return 0;
	path_len = len + 1 + (ssize_t)name_len;
	return path[path_len] == '\0' || path[path_len] == '/';
}
