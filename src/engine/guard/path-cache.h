/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What paths are, each looked at once: the paths that are protected lie in the same few
 * directories. For a moment only, while nothing is expected to change: what is remembered is never
 * looked at again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct look {
	uint64_t dev, ino, mnt_id; /* of the path itself, a link not followed */
	int error;                 /* negative errno, or 0 */
	bool is_link;
	/* Notes of who looks: it was dealt with, with its content, its ancestors were. */
	bool taken, content, climbed;
	char *resolved; /* see looks_resolve */
	size_t len;
	char path[];
};

struct looks {
	void *tree;
};

void looks_done(struct looks *l);

/* What the first len bytes of path are. NULL if memory is out. Lives as long as l. */
struct look *looks_at(struct looks *l, const char *path, size_t len);

/* Is this absolute path, in its first len bytes, one that names each directory on its way and no
 * symbolic link, no "." or "..", and no slash too many? Then following links or not is the same. If
 * something cannot be looked at, the answer is no. */
bool looks_plain(struct looks *l, const char *path, size_t len);

/* The path without symbolic links, as realpath(3) finds it. Returns 0 or a negative errno. */
int looks_resolve(struct looks *l, const char *path, const char **ret);

/* The length of what is left of an absolute path when its last component is cut off; 1 for "/". */
size_t path_parent(const char *path, size_t len);
