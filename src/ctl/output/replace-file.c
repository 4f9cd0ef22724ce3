/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "replace-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

static int put(int fd, mode_t mode, bool durable, void (*write)(FILE *f, const void *userdata),
	       const void *userdata)
{
	FILE *f = fdopen(fd, "w");
	int r;

	if (!f) {
		(void)close(fd);
		return -ENOMEM;
	}
	write(f, userdata);
	r = fflush(f) != 0 || fchmod(fd, mode) < 0 || (durable && fdatasync(fd) < 0) ? -errno
	    : ferror(f)                                                              ? -EIO
										     : 0;
	return fclose(f) != 0 && r >= 0 ? -errno : r;
}

int file_replace(const char *path, mode_t mode, bool durable,
		 void (*write)(FILE *f, const void *userdata), const void *userdata)
{
	_cleanup_free_ char *temporary = NULL;
	int fd, r;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
		temporary = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = put(fd, mode, durable, write, userdata);
	if (r >= 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(temporary);
	return r;
}
