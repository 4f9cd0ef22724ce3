/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "names-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/fd.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static void names_write(FILE *f, const void *what)
{
	const struct dirlist *l = what;

	for (size_t i = 0; i < l->n; i++) {
		const char *name = dirlist_name(l, &l->v[i]);

		(void)fwrite(name, 1, strlen(name) + 1, f);
	}
}

static int file_write(int fd, void (*write)(FILE *f, const void *what), const void *what)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	FILE *f = copy < 0 ? NULL : fdopen(copy, "w");
	bool failed;

	if (!f) {
		int r = -errno;

		fd_closep(&copy);
		return r;
	}
	write(f, what);
	failed = ferror(f) != 0;
	return fclose(f) != 0 || failed ? -ENOSPC : 0;
}

int sealed_file(void (*write)(FILE *f, const void *what), const void *what)
{
	_cleanup_close_ int fd = memfd_create("names", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return -errno;
	r = file_write(fd, write, what);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return -errno;
	return fd_take(&fd);
}

int names_file(const struct dirlist *l)
{
	return sealed_file(names_write, l);
}
