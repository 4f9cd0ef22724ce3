/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "deadlines.h"

#include <errno.h>
#include <stdlib.h>

#include "job.h"

int due_reserve(struct due *d, size_t n)
{
	size_t size = MAX(d->size, (size_t)64);
	struct job **v;

	if (n <= d->size)
		return 0;
	while (size < n)
		size *= 2;
	v = reallocarray(d->v, size, sizeof(void *));
	if (!v)
		return -ENOMEM;
	d->v = v;
	d->size = size;
	return 0;
}

static void put(struct due *d, size_t at, struct job *j)
{
	d->v[at] = j;
	j->due_at = at;
}

uint64_t due_usec(const struct job *j)
{
	return j->again_usec > 0 ? j->again_usec : j->r.held_until_usec;
}

static uint64_t when(const struct due *d, size_t at)
{
	return due_usec(d->v[at]);
}

static void up(struct due *d, size_t at)
{
	struct job *j = d->v[at];

	for (; at > 0 && when(d, (at - 1) / 2) > due_usec(j); at = (at - 1) / 2)
		put(d, at, d->v[(at - 1) / 2]);
	put(d, at, j);
}

static void down(struct due *d, size_t at)
{
	struct job *j = d->v[at];

	for (size_t child; (child = 2 * at + 1) < d->n; at = child) {
		if (child + 1 < d->n && when(d, child + 1) < when(d, child))
			child++;
		if (when(d, child) >= due_usec(j))
			break;
		put(d, at, d->v[child]);
	}
	put(d, at, j);
}

void due_add(struct due *d, struct job *j)
{
	put(d, d->n++, j);
	up(d, d->n - 1);
}

void due_remove(struct due *d, struct job *j)
{
	size_t at = j->due_at;
	struct job *last;

	if (at == JOB_NOT_DUE)
		return;
	j->due_at = JOB_NOT_DUE;
	last = d->v[--d->n];
	if (last == j)
		return;
	put(d, at, last);
	up(d, at);
	down(d, last->due_at);
}

struct job *due_first(const struct due *d)
{
	return d->n > 0 ? d->v[0] : NULL;
}

void due_done(struct due *d)
{
	free(d->v);
	*d = (struct due){ 0 };
}
