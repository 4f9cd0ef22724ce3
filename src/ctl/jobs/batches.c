/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "batches.h"

#include <errno.h>

#include "base/macros.h"

void batches_done(struct batches *b)
{
	free(b->v);
	free(b->order);
	*b = (struct batches){ 0 };
}

static int by_mount(const void *a, const void *b)
{
	const struct root_group *x = *(struct root_group *const *)a;
	const struct root_group *y = *(struct root_group *const *)b;

	if (x->id.mnt_id != y->id.mnt_id)
		return x->id.mnt_id < y->id.mnt_id ? -1 : 1;
	return 0;
}

/* The accepted groups that have names, those of a mount together, otherwise as they came. */
static size_t order_make(struct root_group **order, const struct roots *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		if (r->v[i]->accepted && r->v[i]->names.n > 0)
			order[n++] = r->v[i];
	/* glibc's qsort() keeps the order of equals, which is only nicer to look at. */
	qsort(order, n, sizeof(struct root_group *), by_mount);
	return n;
}

/* Appends the batches of the mount that n groups begin with. Returns how many groups are on it. */
static size_t mount_divide(struct batches *b, struct root_group **groups, size_t n,
			   unsigned fds_most)
{
	size_t same = 0, names = 0, dirs;
	bool lists = false;

	for (; same < n && groups[same]->id.mnt_id == groups[0]->id.mnt_id; same++) {
		names += groups[same]->names.n;
		/* Names of a list may be missing, which only files of names allow. */
		lists = lists || !groups[same]->explicit_names;
	}
	lists = lists || names > BATCH_NAMES_MOST;
	dirs = MIN(BATCH_DIRS_MOST, lists ? fds_most / 2 : fds_most);
	for (size_t at = 0; at < same; at += dirs) {
		struct call_batch *v = &b->v[b->n++];

		*v = (struct call_batch){ .groups = groups + at,
					  .n = MIN(dirs, same - at),
					  .lists = lists };
		for (size_t i = 0; i < v->n; i++)
			v->names += v->groups[i]->names.n;
	}
	return same;
}

int batches_make(struct batches *ret, const struct roots *r, unsigned fds_most)
{
	struct batches b = { .order = calloc(r->n + 1, sizeof(struct root_group *)),
			     .v = calloc(r->n + 1, sizeof(struct call_batch)) };
	size_t n;

	if (!b.order || !b.v) {
		batches_done(&b);
		return -ENOMEM;
	}
	n = order_make(b.order, r);
	for (size_t at = 0; at < n;)
		at += mount_divide(&b, b.order + at, n - at, fds_most);
	*ret = b;
	return 0;
}
