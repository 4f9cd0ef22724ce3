/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How the entries of a batch are removed, one by one: what both backends have in common, and all
 * that the threads backend does. */
#pragma once

#include "engine/core/batch.h"

struct slice;

/* Performs entries with system calls until none is left to take. Any number of lanes may call it
 * for the same batch at the same time. */
void batch_work(struct batch *b);

/* Takes up to `max` entries. Returns how many, the first in *ret_first; 0 at the end. */
size_t batch_take(struct batch *b, size_t max, size_t *ret_first);

/* What must hold before entry `first` of a batch is touched: not cancelled, and (looked up every
 * few milliseconds) still in its tree. Returns 0 or the result that the entries get instead. */
uint8_t batch_check(struct batch *b, size_t first);

/* All that comes before the unlink itself: checks the pin, weighs, shrinks what is large. Returns 1
 * if nothing is left to do (gone already, or a dry run), 0 if the caller has to unlink it, or a
 * negative result. *ret_bytes is what is freed by it. The slice in which that happens (or NULL)
 * is closed when a large file was shrunk, which asks the pace for each of its steps. */
int batch_prepare(struct batch *b, size_t i, struct slice *slice, uint64_t *ret_bytes);

/* Counts the outcome of one tried entry. */
void batch_tally(struct batch *b, size_t removed, uint64_t bytes, size_t tried);
