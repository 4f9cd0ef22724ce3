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
	const struct look *x = a, *y = b;

	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return memcmp(x->path, y->path, x->len);
}

static void look_free(void *p)
{
	struct look *k = p;

	free(k->resolved);
	free(k);
}

void looks_done(struct looks *l)
{
	tdestroy(l->tree, look_free);
	*l = (struct looks){ 0 };
}

static void look(struct look *k)
{
	struct statx sx;

	if (statx(AT_FDCWD, k->path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		  STATX_TYPE | STATX_INO | STATX_MNT_ID, &sx) < 0) {
		k->error = -errno;
		return;
	}
	k->dev = (uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor;
	k->ino = sx.stx_ino;
	k->mnt_id = sx.stx_mnt_id;
	k->is_link = S_ISLNK(sx.stx_mode);
}

struct look *looks_at(struct looks *l, const char *path, size_t len)
{
	struct look *k = calloc(1, sizeof(*k) + len + 1), **found;

	if (!k)
		return NULL;
	k->len = len;
	memcpy(k->path, path, len);
	found = tsearch(k, &l->tree, by_path);
	if (!found || *found != k) {
		free(k);
		return found ? *found : NULL;
	}
	look(k);
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

bool looks_plain(struct looks *l, const char *path, size_t len)
{
	if (path[0] != '/')
		return false;
	/* From the end: what is mounted only when somebody goes through it is mounted then. */
	for (; len > 1; len = path_parent(path, len)) {
		const struct look *k = component_plain(path, len) ? looks_at(l, path, len) : NULL;

		if (!k || k->error || k->is_link)
			return false;
	}
	return true;
}

int looks_resolve(struct looks *l, const char *path, const char **ret)
{
	struct look *k = looks_at(l, path, strlen(path));

	if (!k)
		return -ENOMEM;
	if (!k->resolved)
		k->resolved = looks_plain(l, path, k->len) ? strdup(path) : realpath(path, NULL);
	if (!k->resolved)
		return -errno;
	*ret = k->resolved;
	return 0;
}
