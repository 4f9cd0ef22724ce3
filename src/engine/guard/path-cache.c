/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "path-cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"

static int by_path(const void *a, const void *b)
{
	const struct cached_path *x = a, *y = b;

	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return memcmp(x->path, y->path, x->len);
}

static void cached_path_free(void *p)
{
	struct cached_path *k = p;

	free(k->resolved);
	free(k);
}

void path_cache_done(struct path_cache *c)
{
	tdestroy(c->tree, cached_path_free);
	*c = (struct path_cache){ 0 };
}

struct cached_path *path_cache_stat(struct path_cache *c, const char *path, size_t len)
{
	struct cached_path *k = calloc(1, sizeof(*k) + len + 1), **found;

	if (!k)
		return NULL;
	k->len = len;
	memcpy(k->path, path, len);
	found = tsearch(k, &c->tree, by_path);
	if (!found || *found != k) {
		free(k);
		return found ? *found : NULL;
	}
	k->error = fd_whereabouts(AT_FDCWD, k->path, AT_SYMLINK_NOFOLLOW, &k->id);
	return k;
}

size_t path_parent(const char *path, size_t len)
{
	while (len > 1 && path[len - 1] != '/')
		len--;
	return MAX(len - 1, (size_t)1);
}

/* Is the component that ends at len one that means what it says? */
static bool component_plain(const char *path, size_t len)
{
	size_t start = len;

	while (start > 0 && path[start - 1] != '/')
		start--;
	return len - start > 2 || (len > start && strncmp(path + start, "..", len - start) != 0);
}

bool path_cache_is_plain(struct path_cache *c, const char *path, size_t len)
{
	if (path[0] != '/')
		return false;
	/* From the end: what is mounted only when a lookup goes through it is mounted then. */
	for (; len > 1; len = path_parent(path, len)) {
		const struct cached_path *k =
			component_plain(path, len) ? path_cache_stat(c, path, len) : NULL;

		if (!k || k->error || S_ISLNK(k->id.mode))
			return false;
	}
	return true;
}

int path_cache_resolve(struct path_cache *c, const char *path, const char **ret)
{
	struct cached_path *k = path_cache_stat(c, path, strlen(path));

	if (!k)
		return -ENOMEM;
	if (!k->resolved)
		k->resolved =
			path_cache_is_plain(c, path, k->len) ? strdup(path) : realpath(path, NULL);
	if (!k->resolved)
		return -errno;
	*ret = k->resolved;
	return 0;
}
