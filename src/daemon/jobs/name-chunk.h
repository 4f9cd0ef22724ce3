/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Some names of a job, read from the store: as many as are dealt with at a time, with the
 * directories they were in. */
#pragma once

#include "store/store-queue.h"

struct chunk_entry {
	uint64_t seq, dir;
	const char *name;
	struct lasting_identity id;
	enum entry_state state;
};

struct chunk_dir {
	uint64_t dir;
	char *path;
	struct lasting_identity id;
};

struct chunk {
	struct chunk_entry *entries;
	size_t n;
	struct chunk_dir *dirs; /* those of the entries, in order */
	size_t n_dirs;
	char *names;
};

/* Reads at most `limit` entries from seq `from` on that are in one of `states` (1 << state). The
 * chunk is the callback's, and is empty when there are no more. Returns 0, and the callback comes
 * later with 0 or a negative errno and NULL; or -ENOMEM and no callback. */
int chunk_load(struct store_queue *q, uint64_t job, uint64_t from, size_t limit, uint32_t states,
	       void (*loaded)(int r, struct chunk *c, void *userdata), void *userdata);

struct chunk *chunk_free(struct chunk *c);
const struct chunk_dir *chunk_dir(const struct chunk *c, uint64_t dir);

/* The path that the submitter knows an entry by, and `rest` behind it. Malloc'ed, or NULL. */
char *chunk_path(const struct chunk *c, const struct chunk_entry *e, const char *rest);
