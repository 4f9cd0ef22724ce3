/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "survey-links.h"

#include <search.h>
#include <stdlib.h>

/* 48 bytes each with the tree's node: some 5 MiB at most. */
#define LINKS_MOST 65536

struct linked {
	uint64_t dev, ino;
	uint32_t seen;
};

static int by_identity(const void *a, const void *b)
{
	const struct linked *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

uint32_t links_add(struct links *l, uint64_t dev, uint64_t ino)
{
	struct linked key = { .dev = dev, .ino = ino }, *own;
	struct linked **found = tfind(&key, &l->index, by_identity);

	if (found)
		return ++(*found)->seen;
	own = l->n < LINKS_MOST ? malloc(sizeof(*own)) : NULL;
	if (!own)
		return 0;
	*own = key;
	own->seen = 1;
	if (!tsearch(own, &l->index, by_identity)) {
		free(own);
		return 0;
	}
	l->n++;
	return 1;
}

void links_done(struct links *l)
{
	tdestroy(l->index, free);
	*l = (struct links){ 0 };
}
