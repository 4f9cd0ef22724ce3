/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A cache of statx(2) results by path: the paths that are protected lie in the same few
 * directories. It lives only while the list of protected places is made; an entry is never
 * refreshed. A zeroed struct is an empty cache. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/fd.h"

struct cached_path {
	struct identity id; /* fd_whereabouts() of the path itself, a link not followed */
	int error;          /* negative errno, or 0 */
	/* For protect.c: the path has been added, with its content, its ancestors have. */
	bool taken, content, climbed;
	char *resolved; /* see path_cache_resolve */
	size_t len;
	char path[];
};

struct path_cache {
	void *tree;
};

/* Frees all entries, and leaves an empty cache. */
void path_cache_done(struct path_cache *c);

/* The entry of the path that is the first len bytes of `path`; its `error` says why statx failed.
 * NULL: out of memory. Owned by the cache. */
struct cached_path *path_cache_stat(struct path_cache *c, const char *path, size_t len);

/* True if the first len bytes of `path` are absolute and name each directory on the way, without a
 * symbolic link, "." or "..", or a slash too many, so that following links makes no difference.
 * False too if a component cannot be read, or memory is out. */
bool path_cache_is_plain(struct path_cache *c, const char *path, size_t len);

/* Resolves symbolic links as realpath(3) does; *ret is owned by the cache. Returns 0, -ENOMEM, or
 * the negative errno of realpath(3). */
int path_cache_resolve(struct path_cache *c, const char *path, const char **ret);

/* The length of an absolute path of len bytes without its last component; 1 for "/". */
size_t path_parent(const char *path, size_t len);
