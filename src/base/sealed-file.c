/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sealed-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fd.h"

int sealed_file(void (*write)(FILE *f, const void *what), const void *what)
{
	_cleanup_close_ int fd = memfd_create("reclaim-sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	FILE *f = copy < 0 ? NULL : fdopen(copy, "w");
	bool failed;

	if (!f) {
		fd_closep(&copy);
		return -errno;
	}
	errno = 0;
	write(f, what);
	failed = ferror(f) != 0;
	if (fclose(f) != 0 || failed)
		return errno ? -errno : -EIO;
	if (lseek(fd, 0, SEEK_SET) < 0 || fcntl(fd, F_ADD_SEALS, SEALED_FILE) < 0)
		return -errno;
	return fd_take(&fd);
}
