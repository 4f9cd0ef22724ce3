/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A job's names on their way between the intake worker, the store and the workers that delete them:
 * into the store in rows while a submit goes on, out of it in chunks. Names of a job are not held
 * in memory otherwise. */
#pragma once

#include "daemon/workers/worker-handle.h"
#include "store/store-queue.h"

/* ---- into the store ----------------------------------------------------------------------- */

struct rows;

struct rows *rows_new(void);
struct rows *rows_free(struct rows *r);

/* Both copy. */
int rows_add_dir(struct rows *r, const struct intake_dir *d);
int rows_add_entry(struct rows *r, const struct entry_record *e);

/* Enough for one piece of the store's work. */
bool rows_full(const struct rows *r);

int rows_store(const struct rows *r, struct store *s, uint64_t job);

/* ---- out of it ---------------------------------------------------------------------------- */

/* Some names of a job: as many as are dealt with at a time, with the directories they were in. */
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

/* The path that the submitter knows an entry by, and `suffix` behind it. Malloc'ed, or NULL. */
char *chunk_path(const struct chunk *c, const struct chunk_entry *e, const char *suffix);
