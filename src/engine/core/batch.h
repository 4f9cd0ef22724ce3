/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A batch: names in one directory that are to be unlinked, and what came of each.
 *
 * The unit that a queue performs. Made by a walker, which owns it and its list; several lanes may
 * work on one batch together (batch_work). */
#pragma once

#include <stdatomic.h>

#include "dirlist.h"

struct job;
struct slice;
struct walker;

/* Results beside plain errno values, which are all smaller. */
enum {
	BATCH_CHANGED = 253,   /* not tried: no longer the file that was accepted */
	BATCH_CANCELLED = 254, /* not tried: the job was stopped */
	BATCH_MOVED = 255,     /* not tried: the directory is no longer in the tree */
};

struct batch {
	struct job *job;
	struct walker *walker;
	int dirfd;
	int flags; /* of unlinkat: 0 or AT_REMOVEDIR */
	const struct dirlist *list;
	size_t n;         /* the first n entries of the list */
	uint8_t *results; /* one per entry: 0, an errno, or one of the above */

	/* Of entries that were accepted one by one: who each must still be; its ino is the pin's
	 * number, counted from 1. NULL for what a directory listed. */
	const struct identity *pins;

	/* Where the tree of this batch must be found: beneath this directory, under this name. */
	int tree_dirfd;
	const char *tree_name;
	_Atomic uint64_t *checked_usec; /* when that was last looked up; the walker's */

	_Atomic size_t next;       /* first entry nobody has taken yet */
	_Atomic unsigned workers;  /* lanes that help */
	_Atomic bool offered;      /* to the crew, so it has to be taken back */
	struct batch *next_wanted; /* the crew's list of batches that want help */
	unsigned in_flight;        /* of the ring: submitted and not completed */
};

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
