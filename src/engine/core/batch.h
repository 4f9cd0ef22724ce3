/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A batch: names in one directory that are to be unlinked, and what came of each.
 *
 * The unit that a queue performs. Made by a walker, which owns it and its list; several lanes may
 * work on one batch together (batch-work.h). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "dirlist.h"

struct engine_job;
struct walker;

/* Results beside plain errno values, which are all smaller. */
enum {
	BATCH_PINNED = 252,    /* not tried: a person has pinned it */
	BATCH_CHANGED = 253,   /* not tried: no longer the file that was accepted */
	BATCH_CANCELLED = 254, /* not tried: the job was stopped */
	BATCH_MOVED = 255,     /* not tried: the directory is no longer in the tree */
};

struct batch {
	struct engine_job *job;
	struct walker *walker;
	int dirfd;
	int flags; /* of unlinkat: 0 or AT_REMOVEDIR */
	const struct dirlist *list;
	size_t first, n;  /* entries of the list: from `first` to before the n-th */
	uint8_t *results; /* one per entry: 0, an errno, or one of the above */

	/* Of entries that were accepted one by one: who each must still be; its ino is the pin's
	 * number, counted from 1. NULL for what a directory listed. */
	const struct identity *pins;
	/* A person may have pinned some of them (user-pin.h): each is asked before it goes. */
	bool marked;

	/* Where the tree of this batch must be found: beneath this directory, under this name. */
	int tree_dirfd;
	const char *tree_name;
	_Atomic uint64_t *checked_usec; /* when that was last looked up; the walker's */

	_Atomic size_t next;       /* first entry that no lane has taken yet */
	_Atomic unsigned workers;  /* lanes that help */
	_Atomic bool offered;      /* to idle lanes, so it has to be taken back */
	struct batch *next_wanted; /* the list of batches that want help */
	unsigned in_flight;        /* of the ring: submitted and not completed */
};
