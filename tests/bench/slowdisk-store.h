/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The bytes of a simulated disk, in memory. Pages of zeros are not stored, so a disk of 50 GB that
 * was formatted, or only ever written zeros, costs next to nothing; zeroing a range frees it.
 * Calls may come from several threads; ranges must lie within the disk.
 */
#include <stddef.h>
#include <stdint.h>

#define STORE_PAGE_BYTES 4096

struct store;

/* size is rounded up to whole pages. Returns 0 or a negative errno. */
int store_new(uint64_t size_bytes, struct store **ret);
struct store *store_free(struct store *store);

void store_read(struct store *store, uint64_t offset, size_t length, char *ret_data);
/* Returns 0, or -ENOMEM with part of the data stored. */
int store_write(struct store *store, uint64_t offset, size_t length, const char *data);
void store_zero(struct store *store, uint64_t offset, uint64_t length);

/* How much memory the contents take. */
uint64_t store_used_bytes(struct store *store);
