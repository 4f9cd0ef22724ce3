/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "store-internal.h"
#include "base/macros.h"

/* Who submitted what and when; never changed. */
#define SUBMITTED "uuid, uid, gid, groups, origin, path, created"
/* What becomes of it, in the order of bind_progress and read_progress. */
#define PROGRESS                                                                                   \
	"state, resume_state, priority, mount, staging, inplace, message, strategy, "              \
	"names, entries, bytes, entries_done, bytes_freed, errors, skipped, held_until, by_time, " \
	"started, finished, attempts"
#define PROGRESS_VALUES "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
/* Set once, with the entries that were moved there. */
#define STAGING "staging_fsid, staging_ino, staging_btime, staging_type"
#define STAGING_VALUES "?, ?, ?, ?"
#define ALL "SELECT id, " SUBMITTED ", " PROGRESS ", " STAGING " FROM "

static void bind_submitted(struct binder *b, const struct job_record *r)
{
	bind_bytes(b, r->uuid, sizeof(r->uuid));
	bind_u64(b, r->uid);
	bind_u64(b, r->gid);
	/* In the machine's own byte order: a list of jobs does not change machines. */
	bind_bytes(b, r->groups, r->n_groups * sizeof(*r->groups));
	bind_string(b, r->origin);
	bind_string(b, r->path);
	bind_u64(b, r->created_usec);
}

static void bind_progress(struct binder *b, const struct job_record *r)
{
	bind_u64(b, r->state);
	bind_u64(b, r->resume_state);
	bind_u64(b, r->priority);
	bind_string(b, r->mount);
	bind_string(b, r->staging);
	bind_string(b, r->inplace);
	bind_string(b, r->message);
	bind_string(b, r->strategy);
	bind_u64(b, r->names);
	bind_u64(b, r->entries);
	bind_u64(b, r->bytes);
	bind_u64(b, r->entries_done);
	bind_u64(b, r->bytes_freed);
	bind_u64(b, r->errors);
	bind_u64(b, r->skipped);
	bind_u64(b, r->held_until_usec);
	bind_u64(b, r->by_usec);
	bind_u64(b, r->started_usec);
	bind_u64(b, r->finished_usec);
	bind_u64(b, r->attempts);
}

static bool job_valid(const struct job_record *r)
{
	return r->state < JOB_STATES && r->resume_state < JOB_STATES &&
	       r->priority <= PRIORITY_HIGH;
}

int store_job_add(struct store *s, const struct job_record *r, uint64_t *ret_id)
{
	struct binder b = { 0 };
	int e;

	if (!job_valid(r))
		return -EINVAL;
	e = statement_get(s, STATEMENT_JOB_ADD,
			  "INSERT INTO jobs (" SUBMITTED ", " PROGRESS ", " STAGING
			  ") VALUES (?, ?, ?, ?, ?, ?, ?, " PROGRESS_VALUES ", " STAGING_VALUES ")",
			  &b.st);
	if (e < 0)
		return e;
	bind_submitted(&b, r);
	bind_progress(&b, r);
	bind_identity(&b, &r->staging_id);
	if (b.rc != SQLITE_OK)
		return store_error(s->db, b.rc);
	e = statement_run(s, b.st);
	if (e < 0)
		return e;
	*ret_id = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return r->state < JOB_DONE ? 0 : history_add(s, *ret_id);
}

int store_job_update(struct store *s, const struct job_record *r)
{
	struct binder b = { 0 };
	int e;

	if (!job_valid(r))
		return -EINVAL;
	e = statement_get(s, STATEMENT_JOB_UPDATE,
			  "UPDATE jobs SET (" PROGRESS ") = (" PROGRESS_VALUES ") WHERE id = ?",
			  &b.st);
	if (e < 0)
		return e;
	bind_progress(&b, r);
	bind_u64(&b, r->id);
	if (b.rc != SQLITE_OK)
		return store_error(s->db, b.rc);
	e = statement_run(s, b.st);
	if (e < 0)
		return e;
	if (sqlite3_changes(s->db) == 0)
		return -ENOENT;
	return r->state < JOB_DONE ? 0 : history_add(s, r->id);
}

int store_job_staged(struct store *s, uint64_t id, const struct lasting_identity *staging_id)
{
	struct binder b = { 0 };
	int e = statement_get(s, STATEMENT_JOB_STAGED,
			      "UPDATE jobs SET (" STAGING ") = (" STAGING_VALUES ") WHERE id = ?",
			      &b.st);

	if (e < 0)
		return e;
	bind_identity(&b, staging_id);
	bind_u64(&b, id);
	if (b.rc != SQLITE_OK)
		return store_error(s->db, b.rc);
	e = statement_run(s, b.st);
	if (e < 0)
		return e;
	return sqlite3_changes(s->db) > 0 ? 0 : -ENOENT;
}

int store_job_remove(struct store *s, uint64_t id)
{
	struct binder b = { 0 };
	int e = statement_get(s, STATEMENT_JOB_REMOVE, "DELETE FROM jobs WHERE id = ?", &b.st);

	if (e < 0)
		return e;
	bind_u64(&b, id);
	if (b.rc != SQLITE_OK)
		return store_error(s->db, b.rc);
	e = statement_run(s, b.st);
	if (e < 0)
		return e;
	return sqlite3_changes(s->db) > 0 ? 0 : -ENOENT;
}

/* Copies the groups: within a row nothing is aligned. The caller frees *ret. */
static int read_groups(struct reader *in, gid_t **ret, size_t *ret_n)
{
	size_t len = (size_t)sqlite3_column_bytes(in->st, in->at);
	const void *p = sqlite3_column_blob(in->st, in->at++);
	gid_t *groups = malloc(MAX(len, (size_t)1));

	if (!groups)
		return -ENOMEM;
	if (len % sizeof(gid_t) != 0)
		reader_fail(in, -EUCLEAN);
	else if (len > 0)
		memcpy(groups, p, len);
	*ret = groups;
	*ret_n = len / sizeof(gid_t);
	return 0;
}

/* *ret_groups is what r->groups points to, for the caller to free. */
static int read_submitted(struct reader *in, struct job_record *r, gid_t **ret_groups)
{
	const void *uuid;
	int e;

	r->id = read_u64(in);
	uuid = sqlite3_column_blob(in->st, in->at);
	if (sqlite3_column_bytes(in->st, in->at++) != sizeof(r->uuid))
		reader_fail(in, -EUCLEAN);
	else
		memcpy(r->uuid, uuid, sizeof(r->uuid));
	r->uid = read_u32(in);
	r->gid = read_u32(in);
	e = read_groups(in, ret_groups, &r->n_groups);
	if (e < 0)
		return e;
	r->groups = *ret_groups;
	r->origin = read_string(in);
	r->path = read_string(in);
	r->created_usec = read_u64(in);
	return 0;
}

static void read_progress(struct reader *in, struct job_record *r)
{
	r->state = (enum job_state)read_enum(in, JOB_STATES);
	r->resume_state = (enum job_state)read_enum(in, JOB_STATES);
	r->priority = (enum job_priority)read_enum(in, PRIORITY_HIGH + 1);
	r->mount = read_string(in);
	r->staging = read_string(in);
	r->inplace = read_string(in);
	r->message = read_string(in);
	r->strategy = read_string(in);
	r->names = read_u64(in);
	r->entries = read_u64(in);
	r->bytes = read_u64(in);
	r->entries_done = read_u64(in);
	r->bytes_freed = read_u64(in);
	r->errors = read_u64(in);
	r->skipped = read_u64(in);
	r->held_until_usec = read_u64(in);
	r->by_usec = read_u64(in);
	r->started_usec = read_u64(in);
	r->finished_usec = read_u64(in);
	r->attempts = read_u32(in);
	r->staging_id = read_identity(in);
}

static int job_report(sqlite3_stmt *st, int (*job)(const struct job_record *r, void *userdata),
		      void *userdata)
{
	struct reader in = { .st = st };
	struct job_record r = { 0 };
	gid_t *groups = NULL;
	int e = read_submitted(&in, &r, &groups);

	if (e < 0)
		return e;
	read_progress(&in, &r);
	e = in.error < 0 ? in.error : job(&r, userdata);
	free(groups);
	return e;
}

int store_job_get(struct store *s, uint64_t id,
		  int (*job)(const struct job_record *r, void *userdata), void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct binder b = { 0 };
	int e = statement_prepare(s, ALL "jobs WHERE id = ?", &st);

	if (e < 0)
		return e;
	b.st = st;
	bind_u64(&b, id);
	e = statement_next(s, st);
	if (e <= 0)
		return e < 0 ? e : -ENOENT;
	return job_report(st, job, userdata);
}

/* Of a long history and a long queue each is looked for without going through the other. */
static const char *each_text(const struct job_filter *f)
{
	const uint32_t unfinished = (1U << JOB_DONE) - 1;

#define EACH_WHERE                                                                                 \
	"id >= ?1 AND (?2 = 0 OR (?2 >> state) & 1) AND (?3 < 0 OR uid = ?3) "                     \
	"ORDER BY id LIMIT ?4"
	if (f->states == 0 || (f->states & unfinished && f->states & ~unfinished))
		return ALL "jobs WHERE " EACH_WHERE;
	return f->states & unfinished
		       ? ALL "jobs INDEXED BY jobs_unfinished WHERE state < 5 AND " EACH_WHERE
		       : ALL "history CROSS JOIN jobs ON id = job WHERE " HISTORY_WHERE;
}
_Static_assert(JOB_DONE == 5, "schema and queries know where finished states begin");

int filter_bind(struct store *s, sqlite3_stmt *st, const struct job_filter *f)
{
	struct binder b = { .st = st };

	bind_bound(&b, f->since_id);
	bind_u64(&b, f->states);
	bind_u64(&b, f->one_uid ? f->uid : UINT64_MAX);
	bind_bound(&b, f->limit ? f->limit : UINT64_MAX);
	return store_error(s->db, b.rc);
}

int store_jobs_each(struct store *s, const struct job_filter *f,
		    int (*job)(const struct job_record *r, void *userdata), void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int e = statement_prepare(s, each_text(f), &st);

	if (e >= 0)
		e = filter_bind(s, st, f);
	while (e >= 0 && (e = statement_next(s, st)) > 0) {
		e = job_report(st, job, userdata);
		if (e != 0)
			return e;
	}
	return e;
}

int store_history_purge(struct store *s, uint64_t before_usec, uint64_t limit)
{
	struct binder b = { 0 };
	int e = statement_get(
		s, STATEMENT_PURGE,
		"DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE finished > 0 "
		"AND finished < ? AND state >= 5 ORDER BY finished LIMIT ?)",
		&b.st);

	if (e < 0)
		return e;
	bind_bound(&b, before_usec);
	bind_bound(&b, MIN(limit, (uint64_t)INT_MAX));
	e = statement_run(s, b.st);
	return e < 0 ? e : sqlite3_changes(s->db);
}

const char *job_state_name(enum job_state s)
{
	static const char *const names[JOB_STATES] = {
		[JOB_ACCEPTED] = "accepted", [JOB_HELD] = "held",     [JOB_QUEUED] = "queued",
		[JOB_RUNNING] = "running",   [JOB_PAUSED] = "paused", [JOB_DONE] = "done",
		[JOB_PARTIAL] = "partial",   [JOB_FAILED] = "failed", [JOB_CANCELLED] = "cancelled",
		[JOB_RESTORED] = "restored",
	};

	return names[s];
}

const char *job_priority_name(enum job_priority p)
{
	static const char *const names[] = {
		[PRIORITY_LOW] = "low",
		[PRIORITY_NORMAL] = "normal",
		[PRIORITY_HIGH] = "high",
	};

	return names[p];
}
