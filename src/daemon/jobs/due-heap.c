/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "due-heap.h"

#include <assert.h>

#include "base/array.h"

int due_heap_reserve(struct due_heap *h, size_t n)
{
	return array_reserve(&h->v, &h->size, n, sizeof(void *));
}

static void place(struct due_heap *h, size_t at, struct due *d)
{
	h->v[at] = d;
	d->index = at + 1;
}

/* Puts d where it belongs, beginning at a place that is free: towards the first, or away from it.
 */
static void settle(struct due_heap *h, size_t at, struct due *d)
{
	for (; at > 0 && h->v[(at - 1) / 2]->usec > d->usec; at = (at - 1) / 2)
		place(h, at, h->v[(at - 1) / 2]);
	for (size_t child; (child = 2 * at + 1) < h->n; at = child) {
		if (child + 1 < h->n && h->v[child + 1]->usec < h->v[child]->usec)
			child++;
		if (h->v[child]->usec >= d->usec)
			break;
		place(h, at, h->v[child]);
	}
	place(h, at, d);
}

void due_heap_add(struct due_heap *h, struct due *d, uint64_t usec)
{
	assert(h->n < h->size && d->index == 0);
	d->usec = usec;
	h->n++;
	settle(h, h->n - 1, d);
}

void due_heap_remove(struct due_heap *h, struct due *d)
{
	size_t at = d->index - 1;
	struct due *last;

	if (d->index == 0)
		return;
	assert(at < h->n && h->v[at] == d);
	d->index = 0;
	last = h->v[--h->n];
	if (last != d)
		settle(h, at, last);
}

void due_heap_done(struct due_heap *h)
{
	free(h->v);
	*h = (struct due_heap){ 0 };
}
