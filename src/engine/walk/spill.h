/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A byte stack of any height in bounded memory: what lies deep goes to an unlinked temporary file.
 *
 * The walker keeps its levels and the names still to be visited here, so that neither a tree a
 * million levels deep nor directories of millions of subdirectories cost memory. If no temporary
 * file can be had, the stack stays in memory: slower hosts lose the bound, never the work. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct spill;

/* resident_bytes is how much stays in memory, 64 KiB at least. Returns 0 or -ENOMEM. */
int spill_new(struct spill **ret, size_t resident_bytes);
struct spill *spill_free(struct spill *s);

/* Height in bytes; also the offset that the next push gets. */
uint64_t spill_top(const struct spill *s);

/* Appends len bytes. Returns 0 or -ENOMEM. */
int spill_push(struct spill *s, const void *data, size_t len);

/* Copies len bytes at offset off out of, or into, the stack; they must lie below its top. Returns 0
 * or -ENOMEM, or the error of reading the temporary file: one that cannot be written any more is
 * done without. */
int spill_read(struct spill *s, uint64_t off, void *ret, size_t len);
int spill_write(struct spill *s, uint64_t off, const void *data, size_t len);

/* Drops everything from offset `top` up. */
void spill_cut(struct spill *s, uint64_t top);
