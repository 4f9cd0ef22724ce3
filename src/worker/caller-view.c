/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "caller-view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/guard/locations.h"
#include "base/macros.h"
#include "base/mounts.h"

/* A user can have 100,000 mounts in a namespace of its own, and paths of 4 KiB. */
#define TABLE_MAX MiB(16)
#define LOCATIONS_MAX MiB(32)

struct view {
	struct mounts mounts;
	const struct mount **by_id;
	const struct mount *root; /* NULL: not a mount's own root, but a directory in one */
	struct locations points;  /* where something is mounted */
	bool unclear;             /* of some it cannot be told */
};

static int by_id(const void *a, const void *b)
{
	const struct mount *const *x = a, *const *y = b;

	return (*x)->id < (*y)->id ? -1 : (*x)->id > (*y)->id;
}

static const struct mount *find(const struct view *v, uint64_t id)
{
	const struct mount key = { .id = id }, *p = &key, **found;

	found = bsearch(&p, v->by_id, v->mounts.n, sizeof(struct mount *), by_id);
	return found ? *found : NULL;
}

/* Where a mount is mounted; in a chroot only this process's own table may know. */
static int point_locate(const struct view *v, const struct mount *m, const struct mounts *own,
			struct location *ret)
{
	const struct mount *parent = find(v, m->parent), *here;

	if (parent)
		return mount_location(parent, m->target, ret);
	parent = mounts_by_id(own, m->parent);
	here = mounts_by_id(own, m->id);
	return parent && here ? mount_location(parent, here->target, ret) : -ESTALE;
}

static int points_add(struct view *v, const struct mounts *own)
{
	size_t bytes = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < v->mounts.n; i++) {
		const struct mount *m = &v->mounts.v[i];
		struct location at;

		if (m == v->root)
			continue;
		if (point_locate(v, m, own, &at) < 0) {
			v->unclear = true;
			continue;
		}
		bytes += strlen(at.path) + 1;
		r = bytes > LOCATIONS_MAX ? -E2BIG : locations_add(&v->points, &at, false, "");
	}
	locations_sort(&v->points);
	return r;
}

static int view_fill(struct view *v, int fd, const struct mounts *own)
{
	int r = mounts_read_fd(&v->mounts, fd, TABLE_MAX);

	/* In a root that is a directory of a mount, no mount may be to be seen. */
	if (r == -ENODATA)
		r = 0;
	if (r < 0)
		return r == -EFBIG ? -E2BIG : r;
	v->by_id = calloc(v->mounts.n + 1, sizeof(struct mount *));
	if (!v->by_id)
		return -ENOMEM;
	for (size_t i = 0; i < v->mounts.n; i++)
		v->by_id[i] = &v->mounts.v[i];
	qsort(v->by_id, v->mounts.n, sizeof(struct mount *), by_id);
	/* What is mounted over the root has the same target; a process sees what is below it. */
	for (size_t i = 0; i < v->mounts.n && !v->root; i++)
		if (strcmp(v->mounts.v[i].target, "/") == 0 && !find(v, v->mounts.v[i].parent))
			v->root = &v->mounts.v[i];
	return points_add(v, own);
}

int view_new(struct view **ret, int fd, const struct mounts *own)
{
	struct view *v = calloc(1, sizeof(*v));
	int r = v ? view_fill(v, fd, own) : -ENOMEM;

	if (r < 0)
		view_free(v);
	else
		*ret = v;
	return r;
}

struct view *view_free(struct view *v)
{
	if (!v)
		return NULL;
	locations_done(&v->points);
	free(v->by_id);
	mounts_done(&v->mounts);
	free(v);
	return NULL;
}

/* The mount over `m` that is met first on the way to a path. */
static const struct mount *next_on_way(const struct view *v, const struct mount *m,
				       const char *path)
{
	const struct mount *found = NULL;

	for (size_t i = 0; i < v->mounts.n; i++) {
		const struct mount *c = &v->mounts.v[i];

		if (c == m || c->parent != m->id || !path_beneath(path, c->target) ||
		    (m == v->root && strcmp(c->target, "/") == 0))
			continue;
		if (!found || strlen(c->target) < strlen(found->target))
			found = c;
	}
	return found;
}

/* The mount that a path ends on, as the kernel goes there. */
static const struct mount *resolve(const struct view *v, const char *path)
{
	const struct mount *m = v->root, *next = m;

	for (size_t i = 0; next && i <= v->mounts.n; i++) {
		m = next;
		next = next_on_way(v, m, path);
	}
	return m;
}

static bool same(const struct location *a, const struct location *b)
{
	return a->dev == b->dev && strcmp(a->path, b->path) == 0;
}

int view_path(const struct view *v, const char *path, const struct location *at)
{
	const struct mount *m = resolve(v, path);
	struct location there;

	if (!m || mount_location(m, path, &there) < 0 || !same(&there, at))
		return -ESTALE;
	return mount_read_only(m) ? -EROFS : 0;
}

bool view_writable(const struct view *v, const struct location *at)
{
	for (size_t i = 0; i < v->mounts.n; i++) {
		const struct mount *m = &v->mounts.v[i];
		struct location root;
		char path[PATH_MAX];
		size_t len;

		if (mount_read_only(m) || mount_location(m, m->target, &root) < 0 ||
		    root.dev != at->dev)
			continue;
		len = strlen(root.path);
		if (strncmp(at->path, root.path, len) != 0 ||
		    (at->path[len] != '/' && at->path[len] != '\0'))
			continue;
		if (snprintf(path, sizeof(path), "%s%s", strcmp(m->target, "/") ? m->target : "",
			     at->path + len) >= (int)sizeof(path))
			continue;
		if (resolve(v, path[0] ? path : "/") == m)
			return true;
	}
	return false;
}

bool view_mounts_at(const struct view *v, const struct location *at)
{
	return v->unclear || locations_at(&v->points, at) || locations_beneath(&v->points, at);
}

bool view_mounts_between(const struct view *v, const struct location *base,
			 const struct location *at)
{
	struct location here = *at;
	size_t top = strlen(base->path), len;

	if (v->unclear || base->dev != at->dev)
		return true;
	while ((len = strlen(here.path)) > top) {
		if (locations_at(&v->points, &here))
			return true;
		while (len > 0 && here.path[len - 1] != '/')
			len--;
		here.path[len > 0 ? len - 1 : 0] = '\0';
	}
	return strcmp(here.path, base->path) != 0;
}
