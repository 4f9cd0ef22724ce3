/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What of a simulated disk was trimmed since the map was cleared, and how often: a byte for each
 * page of STORE_PAGE_BYTES. A page counts as trimmed if all of it was. One that was written
 * meanwhile is marked, as it may have been free before and not after, or the other way round.
 * Calls may come from several threads; ranges must lie within the disk.
 */
#include <stddef.h>
#include <stdint.h>

#define TRIMS_WRITTEN 0x80
#define TRIMS_MOST 0x7f /* as often, or more often */

struct trims;

/* Returns 0 or a negative errno. */
int trims_new(uint64_t size_bytes, struct trims **ret);
struct trims *trims_free(struct trims *trims);

void trims_clear(struct trims *trims);
void trims_add(struct trims *trims, uint64_t offset, uint64_t length);
void trims_written(struct trims *trims, uint64_t offset, uint64_t length);

/* How many bytes the map has. */
uint64_t trims_size(const struct trims *trims);

/* offset and length: of the map, and within it. */
void trims_read(const struct trims *trims, uint64_t offset, size_t length, char *ret);
