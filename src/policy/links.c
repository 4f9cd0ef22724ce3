/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "links.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"

#define SLOTS_LEAST 64
/* links_clear frees a larger table, so that clearing it for each small tree costs little. */
#define SLOTS_KEPT 1024

uint32_t link_dev(uint32_t major, uint32_t minor)
{
	return major << 20 | (minor & 0xfffff);
}

/* Returns the slot of the file with this identity, or the free slot where it belongs. */
static uint32_t *slot_find(const struct links *l, uint64_t ino, uint32_t dev)
{
	/* Inode numbers often differ only in their low bits. */
	uint64_t hash = (ino ^ (uint64_t)dev << 40) * 0x9e3779b97f4a7c15ULL;

	for (size_t i = hash >> 32;; i++) {
		uint32_t *slot = &l->slots[i & (l->n_slots - 1)];

		if (*slot == 0 || (l->v[*slot - 1].ino == ino && l->v[*slot - 1].dev == dev))
			return slot;
	}
}

/* Makes room for one more file; at least a quarter of the slots stays free. */
static int slots_reserve(struct links *l)
{
	size_t n_slots = MAX(2 * l->n_slots, (size_t)SLOTS_LEAST);
	uint32_t *slots;

	if ((l->n + 1) * 4 <= l->n_slots * 3)
		return 0;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(l->slots);
	l->slots = slots;
	l->n_slots = n_slots;
	for (size_t i = 0; i < l->n; i++)
		*slot_find(l, l->v[i].ino, l->v[i].dev) = (uint32_t)i + 1;
	return 0;
}

struct link_file *links_file(struct links *l, const struct link_file *f, size_t most)
{
	struct link_file *file;
	uint32_t *slot;

	if (slots_reserve(l) < 0)
		return NULL;
	slot = slot_find(l, f->ino, f->dev);
	if (*slot == 0) {
		file = l->n < MIN(most, (size_t)UINT32_MAX) ? array_add(&l->v, &l->n, sizeof(*file))
							    : NULL;
		if (!file)
			return NULL;
		*file = (struct link_file){ .ino = f->ino, .dev = f->dev };
		*slot = (uint32_t)l->n;
	}
	file = &l->v[*slot - 1];
	file->nlink = MAX(file->nlink, f->nlink);
	file->bytes = MAX(file->bytes, f->bytes);
	return file;
}

void links_clear(struct links *l)
{
	if (l->n_slots > SLOTS_KEPT) {
		links_done(l);
		return;
	}
	if (l->n > 0)
		memset(l->slots, 0, l->n_slots * sizeof(*l->slots));
	l->n = 0;
}

void links_done(struct links *l)
{
	free(l->v);
	free(l->slots);
	*l = (struct links){ 0 };
}
