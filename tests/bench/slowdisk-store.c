/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "slowdisk-store.h"

/*
 * Two levels: a table of chunks, each a table of pages. A chunk's table is made when its first page
 * is and stays, so only the pages come and go. Locks are per group of chunks: requests are smaller
 * than a chunk, and concurrent ones seldom meet.
 */
#define CHUNK_PAGES 512
#define CHUNK_BYTES ((uint64_t)CHUNK_PAGES * STORE_PAGE_BYTES)
#define N_LOCKS 64

struct store {
	uint64_t n_chunks;
	char ***chunks;
	_Atomic uint64_t n_pages;
	pthread_mutex_t locks[N_LOCKS];
};

/* A stretch of a request that lies in one page. */
struct piece {
	uint64_t chunk;
	size_t page;
	size_t offset;
	size_t length;
};

static struct piece first_piece(uint64_t offset, uint64_t length)
{
	struct piece piece = {
		.chunk = offset / CHUNK_BYTES,
		.page = offset % CHUNK_BYTES / STORE_PAGE_BYTES,
		.offset = offset % STORE_PAGE_BYTES,
	};

	piece.length = STORE_PAGE_BYTES - piece.offset;
	if (piece.length > length)
		piece.length = length;
	return piece;
}

static bool is_zero(const char *data, size_t length)
{
	/* Each byte equals its neighbour and the first is zero: memcmp does it at full speed. */
	return length == 0 || (data[0] == 0 && memcmp(data, data + 1, length - 1) == 0);
}

int store_new(uint64_t size_bytes, struct store **ret)
{
	struct store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	for (size_t i = 0; i < N_LOCKS; i++)
		pthread_mutex_init(&store->locks[i], NULL);
	store->n_chunks = (size_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
	store->chunks = calloc(store->n_chunks, sizeof(*store->chunks));
	if (!store->chunks) {
		store_free(store);
		return -ENOMEM;
	}
	*ret = store;
	return 0;
}

static void free_chunk(char **pages)
{
	if (!pages)
		return;
	for (size_t i = 0; i < CHUNK_PAGES; i++)
		free(pages[i]);
	free(pages);
}

struct store *store_free(struct store *store)
{
	if (!store)
		return NULL;
	for (uint64_t i = 0; store->chunks && i < store->n_chunks; i++)
		free_chunk(store->chunks[i]);
	free(store->chunks);
	for (size_t i = 0; i < N_LOCKS; i++)
		pthread_mutex_destroy(&store->locks[i]);
	free(store);
	return NULL;
}

static pthread_mutex_t *lock_of(struct store *store, const struct piece *piece)
{
	return &store->locks[piece->chunk % N_LOCKS];
}

static char *find_page(struct store *store, const struct piece *piece)
{
	char **pages = store->chunks[piece->chunk];

	return pages ? pages[piece->page] : NULL;
}

static char *make_page(struct store *store, const struct piece *piece)
{
	char ***pages = &store->chunks[piece->chunk];

	if (!*pages)
		*pages = calloc(CHUNK_PAGES, sizeof(**pages));
	if (!*pages)
		return NULL;
	(*pages)[piece->page] = calloc(1, STORE_PAGE_BYTES);
	if ((*pages)[piece->page])
		store->n_pages++;
	return (*pages)[piece->page];
}

static void drop_page(struct store *store, const struct piece *piece)
{
	free(store->chunks[piece->chunk][piece->page]);
	store->chunks[piece->chunk][piece->page] = NULL;
	store->n_pages--;
}

static void zero_piece(struct store *store, const struct piece *piece)
{
	char *page = find_page(store, piece);

	if (!page)
		return;
	if (piece->length == STORE_PAGE_BYTES)
		drop_page(store, piece);
	else
		memset(page + piece->offset, 0, piece->length);
}

static int write_piece(struct store *store, const struct piece *piece, const char *data)
{
	char *page;

	if (is_zero(data, piece->length)) {
		zero_piece(store, piece);
		return 0;
	}
	page = find_page(store, piece);
	if (!page)
		page = make_page(store, piece);
	if (!page)
		return -ENOMEM;
	memcpy(page + piece->offset, data, piece->length);
	return 0;
}

static void read_piece(struct store *store, const struct piece *piece, char *ret_data)
{
	const char *page = find_page(store, piece);

	if (page)
		memcpy(ret_data, page + piece->offset, piece->length);
	else
		memset(ret_data, 0, piece->length);
}

void store_read(struct store *store, uint64_t offset, size_t length, char *ret_data)
{
	while (length > 0) {
		struct piece piece = first_piece(offset, length);

		pthread_mutex_lock(lock_of(store, &piece));
		read_piece(store, &piece, ret_data);
		pthread_mutex_unlock(lock_of(store, &piece));
		offset += piece.length;
		length -= piece.length;
		ret_data += piece.length;
	}
}

int store_write(struct store *store, uint64_t offset, size_t length, const char *data)
{
	while (length > 0) {
		struct piece piece = first_piece(offset, length);
		int r;

		pthread_mutex_lock(lock_of(store, &piece));
		r = write_piece(store, &piece, data);
		pthread_mutex_unlock(lock_of(store, &piece));
		if (r < 0)
			return r;
		offset += piece.length;
		length -= piece.length;
		data += piece.length;
	}
	return 0;
}

/* Discards come by the gigabyte: a chunk that never had a page is passed in one step. */
static uint64_t empty_stretch(struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t left = CHUNK_BYTES - offset % CHUNK_BYTES;

	if (store->chunks[offset / CHUNK_BYTES])
		return 0;
	return left < length ? left : length;
}

void store_zero(struct store *store, uint64_t offset, uint64_t length)
{
	while (length > 0) {
		struct piece piece = first_piece(offset, length);
		uint64_t done;

		pthread_mutex_lock(lock_of(store, &piece));
		done = empty_stretch(store, offset, length);
		if (done == 0) {
			zero_piece(store, &piece);
			done = piece.length;
		}
		pthread_mutex_unlock(lock_of(store, &piece));
		offset += done;
		length -= done;
	}
}

uint64_t store_used_bytes(struct store *store)
{
	return store->n_pages * STORE_PAGE_BYTES;
}
