/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "locations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"
#include "base/mounts.h"

struct protected_location {
	dev_t dev;
	size_t len;
	char *path;
	bool content;
	const char *reason;
};

/* What begins with the same bytes stands together, so that all beneath "/a/" do. */
static int compare(const struct protected_location *x, dev_t dev, const char *path, size_t len)
{
	int order;

	if (x->dev != dev)
		return x->dev < dev ? -1 : 1;
	order = memcmp(x->path, path, MIN(x->len, len));
	return order || x->len == len ? order : x->len < len ? -1 : 1;
}

static int by_location(const void *a, const void *b)
{
	const struct protected_location *x = a, *y = b;
	int order = compare(x, y->dev, y->path, y->len);

	/* Of those at one place the one with its content is found. */
	return order ? order : (int)y->content - (int)x->content;
}

int locations_add(struct locations *p, const struct location *at, bool content, const char *reason)
{
	char *path = strdup(at->path);
	struct protected_location *v = path ? array_add(&p->v, &p->n, sizeof(*v)) : NULL;

	if (!v) {
		free(path);
		return -ENOMEM;
	}
	*v = (struct protected_location){ at->dev, strlen(path), path, content, reason };
	return 0;
}

void locations_sort(struct locations *p)
{
	if (p->n > 0)
		qsort(p->v, p->n, sizeof(*p->v), by_location);
}

void locations_done(struct locations *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].path);
	free(p->v);
	*p = (struct locations){ 0 };
}

/* The first that is not before this one; p->n if there is none. */
static size_t bound(const struct locations *p, dev_t dev, const char *path, size_t len)
{
	size_t from = 0, to = p->n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (compare(&p->v[mid], dev, path, len) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

static const struct protected_location *find(const struct locations *p, dev_t dev, const char *path,
					     size_t len)
{
	size_t i = bound(p, dev, path, len);

	return i < p->n && compare(&p->v[i], dev, path, len) == 0 ? &p->v[i] : NULL;
}

const char *locations_at(const struct locations *p, const struct location *at)
{
	const struct protected_location *found = find(p, at->dev, at->path, strlen(at->path));

	return found ? found->reason : NULL;
}

const char *locations_around(const struct locations *p, const struct location *at)
{
	for (size_t len = strlen(at->path);; len--) {
		const struct protected_location *found = find(p, at->dev, at->path, len);

		if (found && found->content)
			return found->reason;
		if (len == 0)
			return NULL;
		while (at->path[len - 1] != '/' && len > 1)
			len--;
	}
}

bool locations_beneath(const struct locations *p, const struct location *at)
{
	size_t len = strlen(at->path), i;
	char path[PATH_MAX + 1];

	memcpy(path, at->path, len);
	path[len++] = '/';
	i = bound(p, at->dev, path, len);
	return i < p->n && p->v[i].dev == at->dev && p->v[i].len >= len &&
	       memcmp(p->v[i].path, path, len) == 0;
}
