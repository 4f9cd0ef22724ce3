/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What waits for a time, by when it is due: a binary heap, so that one timer does for a hundred
 * thousand jobs that are held or wait to be tried again. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Part of what may wait; all zero at first. */
struct due {
	uint64_t usec;
	size_t index; /* in the heap, from 1 on; 0: it does not wait */
};

struct due_heap {
	struct due **v;
	size_t n, size;
};

/* Room for n in all; adding then cannot fail. Returns 0 or -ENOMEM. */
int due_heap_reserve(struct due_heap *h, size_t n);
void due_heap_add(struct due_heap *h, struct due *d, uint64_t usec);
/* Does nothing if it is not in there. */
void due_heap_remove(struct due_heap *h, struct due *d);
void due_heap_done(struct due_heap *h);

/* The next one, or NULL. */
static inline struct due *due_heap_first(const struct due_heap *h)
{
	return h->n > 0 ? h->v[0] : NULL;
}
