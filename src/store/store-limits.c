/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps the history within its limits. Finished jobs are removed with all their rows, in steps that
 * are short enough for a submit to wait for one. The tables `history` and `accounts` contain the
 * size of each job and the sums for each account, so that a check takes the same time for any
 * length of the history. */
#include <errno.h>
#include <stdint.h>

#include "store-files.h"
#include "store-internal.h"
#include "base/fd.h"
#include "base/macros.h"

/* A step begins no new deletion after this time. A submit waits for one step at most. */
#define STEP_USEC (20 * USEC_PER_MSEC)

/* The number of rows of a job that one statement deletes. A job can have millions of them. This few
 * need little space in the log, which cannot grow if the filesystem is full. */
#define STEP_ROWS "500"

/* A submit that found no space waits this long for history to be removed. */
#define ROOM_USEC USEC_PER_SEC

/* A step moves this many pages, 1 MiB, from the end of the file to free pages in it. */
#define STEP_PAGES "256"

/* If the filesystem is full, the history shrinks to this size at most. Less of it would make no
 * noticeable room. */
enum { SHORT_BYTES = 1 << 20 };

/* Free pages are reused by later jobs. The file shrinks if they are more than this part of it. */
enum { FREE_PART = 4, FREE_PAGES_LEAST = 256 };

/* The accounts of users are below this, and those of names put back into spools are not. */
#define RETURNED_ACCOUNT (1ULL << 32)

void store_history_limit(struct store *s, const struct history_limits *limits)
{
	s->limits = *limits;
	s->history_changed = true;
}

/* Finds the next job to be removed: the oldest one that is too old, or the oldest one of the
 * account with the largest share of a limit, if a limit is exceeded. A full
 * filesystem is no reason to forget what was put back into a spool, because the spool would delete
 * it again. Returns 1, 0 if there is none, or a negative errno. */
static int find_job(struct store *s, uint64_t *ret_id)
{
	const struct history_limits *l = &s->limits;
	uint64_t bytes = s->is_short ? MIN(l->bytes, (uint64_t)SHORT_BYTES) : l->bytes;
	uint64_t accounts = s->is_short ? RETURNED_ACCOUNT : UINT64_MAX, account;
	int r;

	r = statement_number(s,
			     "SELECT id FROM jobs WHERE finished > 0 AND finished < ? "
			     "AND state >= 5 ORDER BY finished LIMIT 1",
			     PARAMETERS(BOUND(l->before_usec)), ret_id);
	if (r != 0)
		return r;
	r = statement_number(s,
			     "SELECT account FROM accounts WHERE account < ?3 AND "
			     "(jobs > ?1 / 2 OR size > ?2 / 2 OR (SELECT sum(jobs) > ?1 OR "
			     "sum(size) > ?2 FROM accounts WHERE account < ?3)) "
			     "ORDER BY max(jobs * 1.0 / ?1, size * 1.0 / ?2) DESC LIMIT 1",
			     PARAMETERS(BOUND(l->jobs), BOUND(bytes), BOUND(accounts)), &account);
	if (r <= 0)
		return r;
	return statement_number(
		s, "SELECT job FROM history WHERE account = ? ORDER BY finished LIMIT 1",
		PARAMETERS(NUMBER(account)), ret_id);
}

/* Deletes some rows of a job or, if it has no more, the job. */
static int remove_some(struct store *s, uint64_t id)
{
	int r = statement_run(s,
			      "DELETE FROM entries WHERE job = ?1 AND seq < " STEP_ROWS
			      " + (SELECT min(seq) FROM entries WHERE job = ?1)",
			      PARAMETERS(NUMBER(id)));

	if (r < 0 || sqlite3_changes(s->db) > 0)
		return r;
	r = statement_run(s,
			  "DELETE FROM dirs WHERE job = ?1 AND dir < " STEP_ROWS
			  " + (SELECT min(dir) FROM dirs WHERE job = ?1)",
			  PARAMETERS(NUMBER(id)));
	if (r < 0 || sqlite3_changes(s->db) > 0)
		return r;
	return statement_run(s, "DELETE FROM jobs WHERE id = ?", PARAMETERS(NUMBER(id)));
}

static int remove_jobs(struct store *s, bool *ret_removed)
{
	uint64_t begun = now_usec(), id;
	int r = store_begin(s);

	if (r < 0)
		return r;
	*ret_removed = false;
	while ((r = find_job(s, &id)) > 0) {
		r = remove_some(s, id);
		if (r < 0)
			break;
		*ret_removed = true;
		if (s->is_short || now_usec() - begun >= STEP_USEC)
			break;
	}
	if (r < 0) {
		store_rollback(s);
		return r;
	}
	return store_commit(s);
}

/* Gives free pages back to the filesystem. Returns 1 if more are left, 0, or a negative errno. */
static int shrink(struct store *s)
{
	uint64_t pages = 0, unused = 0, left = 0;
	int r = statement_number(s, "PRAGMA page_count", NULL, 0, &pages);

	if (r >= 0)
		r = statement_number(s, "PRAGMA freelist_count", NULL, 0, &unused);
	if (r < 0 || unused < FREE_PAGES_LEAST || (!s->is_short && unused < pages / FREE_PART))
		return MIN(r, 0);
	s->shrunk = true;
	r = statement_exec(s, "PRAGMA incremental_vacuum(" STEP_PAGES ")");
	if (r >= 0)
		r = statement_number(s, "PRAGMA freelist_count", NULL, 0, &left);
	return r < 0 ? r : left < unused;
}

int store_history_step(struct store *s)
{
	bool removed = false;
	int r;

	if (!s->history_changed && !s->is_short)
		return 0;
	s->history_changed = false;
	r = store_set_durable(s, false);
	if (r >= 0)
		r = remove_jobs(s, &removed);
	if (r >= 0)
		r = shrink(s);
	if (r < 0)
		return r;
	s->history_changed = removed || r > 0;
	/* SQLite truncates the file when it has copied all of the log into it. */
	if (s->is_short ? s->history_changed : s->shrunk && !s->history_changed) {
		(void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
						NULL);
		s->shrunk = false;
		store_room_check(s);
	}
	return s->history_changed;
}

bool store_history_make_room(struct store *s)
{
	uint64_t begun = now_usec();
	bool given = false, removed = false;
	int r;

	s->is_short = true;
	(void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	do {
		r = store_history_step(s);
		removed = removed || r > 0;
		/* Deleting takes space in the log. */
		if (r == -ENOSPC && !given) {
			files_reserve_give(s->dir_fd);
			given = true;
			r = 1;
		}
	} while (r > 0 && s->is_short && now_usec() - begun < ROOM_USEC);
	store_room_check(s);
	return removed && !s->is_short;
}
