/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int program_find(const char *name, char *buf, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", buf, size);
	char *slash = n > 0 && (size_t)n < size ? memrchr(buf, '/', (size_t)n) : NULL;
	size_t left = slash ? size - (size_t)(slash + 1 - buf) : 0;

	if (slash && (size_t)snprintf(slash + 1, left, "%s", name) < left && access(buf, X_OK) == 0)
		return 0;
	if ((size_t)snprintf(buf, size, "%s/%s", RECLAIM_LIBEXECDIR, name) < size &&
	    access(buf, X_OK) == 0)
		return 0;
	return -ENOENT;
}
