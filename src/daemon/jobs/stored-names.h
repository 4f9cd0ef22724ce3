/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A job's names on their way between the intake worker, the store and the workers that delete them:
 * into the store and out of it in chunks, and what became of them into it. Names of a job are not
 * held in memory otherwise. */
#pragma once

#include "daemon/workers/worker-handle.h"
#include "store/store-queue.h"

/* Some names of a job: as many as are dealt with at a time, with the directories they were in. */
struct chunk_entry {
	uint64_t seq, dir;
	size_t name; /* chunk_name */
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
	struct chunk_dir *dirs; /* in order */
	size_t n_dirs;
	char *names;
	size_t names_len, names_cap;
	size_t text; /* bytes of names and paths */
};

/* An empty one, or NULL. */
struct chunk *chunk_new(void);
struct chunk *chunk_free(struct chunk *c);

/* Both copy. They return 0 or -ENOMEM. */
int chunk_add_dir(struct chunk *c, uint64_t dir, const char *path,
		  const struct lasting_identity *id);
int chunk_add_entry(struct chunk *c, const struct entry_record *e);

/* Valid until the next is added. */
static inline const char *chunk_name(const struct chunk *c, const struct chunk_entry *e)
{
	return c->names + e->name;
}

/* NULL if it is not there, as of an entry whose directory was in an earlier chunk of a submit. */
const struct chunk_dir *chunk_dir(const struct chunk *c, uint64_t dir);

/* The path that the submitter knows an entry by, and `suffix` behind it. Malloc'ed, or NULL. */
char *chunk_path(const struct chunk *c, const struct chunk_entry *e, const char *suffix);

/* Is it enough for one task of the store? */
bool chunk_is_full(const struct chunk *c);
/* Adds all to the names of a job; for the store's thread. Returns 0 or a negative errno. */
int chunk_store(const struct chunk *c, struct store *s, uint64_t job);

/* Reads at most `limit` entries from seq `from` on that are in one of `states` (1 << state), and
 * their directories, for a caller as store_queue_read() has it. The chunk belongs to the callback,
 * and is empty when there are no more. Returns 0, and the callback comes later with 0 or a negative
 * errno and NULL; or -ENOMEM and no callback. */
int chunk_load(struct store_queue *q, uint64_t caller, uint64_t job, uint64_t from, size_t limit,
	       uint32_t states, void (*loaded)(int r, struct chunk *c, void *userdata),
	       void *userdata);

/* ---- what became of them --------------------------------------------------------------------- */

/* Collected, and then recorded as one piece of work. */
struct outcome;

struct outcome *outcome_new(uint64_t job);
struct outcome *outcome_free(struct outcome *o);

/* Names are in this directory of staging: goes on record with those that are marked so. */
void outcome_staging(struct outcome *o, const struct lasting_identity *id);
/* Names with consecutive numbers and the same end are one range. */
int outcome_mark(struct outcome *o, uint64_t from, uint64_t to, enum entry_state state);
/* The first thousand; the rest is counted by the caller. */
int outcome_problem(struct outcome *o, const struct problem_record *p);

/* Takes o. recorded may be NULL; it is called once, in this call if nothing could be posted. */
void outcome_record(struct outcome *o, struct store_queue *q,
		    void (*recorded)(int r, void *userdata), void *userdata);
