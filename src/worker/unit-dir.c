/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unit-dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/fd.h"
#include "wire/protocol.h"

/* Moves *at behind the next component, which is copied to name. False at the end. */
static bool component_next(const char **at, char name[NAME_MAX + 1])
{
	size_t n = strcspn(*at, "/");

	if (n == 0 || n > NAME_MAX)
		return false;
	memcpy(name, *at, n);
	name[n] = '\0';
	*at += n + ((*at)[n] == '/');
	return true;
}

int unit_dir_open(int job_fd, const char *path, const struct lasting_identity *id)
{
	_cleanup_close_ int fd = fcntl(job_fd, F_DUPFD_CLOEXEC, 3);
	struct lasting_identity now;
	char name[NAME_MAX + 1];
	int r;

	if (fd < 0)
		return -errno;
	if (!is_component_path(path))
		return -EINVAL;
	while (component_next(&path, name)) {
		int next = fd_open_beneath(fd, name, O_PATH | O_DIRECTORY);

		if (next < 0)
			return next;
		fd_closep(&fd);
		fd = next;
	}
	r = lasting_at(fd, "", &now);
	if (r < 0)
		return r;
	return lasting_matches(&now, id) ? fd_take(&fd) : -ESTALE;
}
