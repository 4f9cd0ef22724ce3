/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "snapdir.h"

#include <dirent.h>

#include "base/fd.h"
#include "base/macros.h"

bool snapdir_holds(int fd, const char *name)
{
	_cleanup_close_ int own = name ? fd_open_dir(fd, name) : -1;
	const struct dirent *d;
	bool found = false;
	DIR *dir;

	if (own < 0)
		return false;
	dir = fdopendir(own);
	if (!dir)
		return false;
	(void)fd_take(&own);
	/* With an underscore begin those that a directory above was made part of. */
	while (!found && (d = readdir(dir)))
		found = d->d_name[0] != '.' && d->d_name[0] != '_';
	(void)closedir(dir);
	return found;
}
