/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "deadlines.h"

#include <errno.h>
#include <stdlib.h>

#include "job.h"

int deadlines_reserve(struct deadlines *d, size_t n)
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

static void place(struct deadlines *d, size_t at, struct job *j)
{
	d->v[at] = j;
	j->deadline_index = at;
}

uint64_t job_deadline_usec(const struct job *j)
{
	return j->retry_usec > 0 ? j->retry_usec : j->r.held_until_usec;
}

static uint64_t when(const struct deadlines *d, size_t at)
{
	return job_deadline_usec(d->v[at]);
}

static void up(struct deadlines *d, size_t at)
{
	struct job *j = d->v[at];

	for (; at > 0 && when(d, (at - 1) / 2) > job_deadline_usec(j); at = (at - 1) / 2)
		place(d, at, d->v[(at - 1) / 2]);
	place(d, at, j);
}

static void down(struct deadlines *d, size_t at)
{
	struct job *j = d->v[at];

	for (size_t child; (child = 2 * at + 1) < d->n; at = child) {
		if (child + 1 < d->n && when(d, child + 1) < when(d, child))
			child++;
		if (when(d, child) >= job_deadline_usec(j))
			break;
		place(d, at, d->v[child]);
	}
	place(d, at, j);
}

void deadlines_add(struct deadlines *d, struct job *j)
{
	place(d, d->n++, j);
	up(d, d->n - 1);
}

void deadlines_remove(struct deadlines *d, struct job *j)
{
	size_t at = j->deadline_index;
	struct job *last;

	if (at == JOB_NO_DEADLINE)
		return;
	j->deadline_index = JOB_NO_DEADLINE;
	last = d->v[--d->n];
	if (last == j)
		return;
	place(d, at, last);
	up(d, at);
	down(d, last->deadline_index);
}

struct job *deadlines_first(const struct deadlines *d)
{
	return d->n > 0 ? d->v[0] : NULL;
}

void deadlines_done(struct deadlines *d)
{
	free(d->v);
	*d = (struct deadlines){ 0 };
}
