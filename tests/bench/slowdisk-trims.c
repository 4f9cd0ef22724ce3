/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "slowdisk-store.h"
#include "slowdisk-trims.h"

/* A locked addition for each page of a gibibyte would take milliseconds. So two trims of the same
 * page at the same time may count as one. */
struct trims {
	uint64_t n_pages;
	_Atomic uint8_t *pages;
};

int trims_new(uint64_t size_bytes, struct trims **ret)
{
	struct trims *trims = calloc(1, sizeof(*trims));

	if (!trims)
		return -ENOMEM;
	trims->n_pages = size_bytes / STORE_PAGE_BYTES;
	trims->pages = calloc(trims->n_pages, sizeof(*trims->pages));
	if (!trims->pages) {
		trims_free(trims);
		return -ENOMEM;
	}
	*ret = trims;
	return 0;
}

struct trims *trims_free(struct trims *trims)
{
	if (trims)
		free(trims->pages);
	free(trims);
	return NULL;
}

void trims_clear(struct trims *trims)
{
	for (uint64_t i = 0; i < trims->n_pages; i++)
		atomic_store_explicit(&trims->pages[i], 0, memory_order_relaxed);
}

void trims_add(struct trims *trims, uint64_t offset, uint64_t length)
{
	uint64_t end = (offset + length) / STORE_PAGE_BYTES;

	for (uint64_t i = (offset + STORE_PAGE_BYTES - 1) / STORE_PAGE_BYTES; i < end; i++) {
		uint8_t page = atomic_load_explicit(&trims->pages[i], memory_order_relaxed);

		if ((page & TRIMS_MOST) < TRIMS_MOST)
			atomic_store_explicit(&trims->pages[i], page + 1, memory_order_relaxed);
	}
}

void trims_written(struct trims *trims, uint64_t offset, uint64_t length)
{
	uint64_t end = (offset + length + STORE_PAGE_BYTES - 1) / STORE_PAGE_BYTES;

	for (uint64_t i = offset / STORE_PAGE_BYTES; i < end && i < trims->n_pages; i++)
		atomic_fetch_or_explicit(&trims->pages[i], TRIMS_WRITTEN, memory_order_relaxed);
}

uint64_t trims_size(const struct trims *trims)
{
	return trims->n_pages;
}

void trims_read(const struct trims *trims, uint64_t offset, size_t length, char *ret)
{
	for (size_t i = 0; i < length; i++)
		ret[i] =
			(char)atomic_load_explicit(&trims->pages[offset + i], memory_order_relaxed);
}
