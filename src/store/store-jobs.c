/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "store-internal.h"
#include "base/macros.h"

/* The columns of a job, once for all: X(column, type, member of struct job_record). Those of who
 * submitted what and when are never changed; beside them are uuid and groups. */
#define SUBMITTED(X)                                                                               \
	X(uid, u32, uid)                                                                           \
	X(gid, u32, gid)                                                                           \
	X(origin, string, origin)                                                                  \
	X(path, string, path)                                                                      \
	X(created, u64, created_usec)
/* What becomes of it; state comes before these. */
#define PROGRESS(X)                                                                                \
	X(resume_state, state, resume_state)                                                       \
	X(priority, priority, priority)                                                            \
	X(mount, string, mount)                                                                    \
	X(staging, string, staging)                                                                \
	X(inplace, string, inplace)                                                                \
	X(message, string, message)                                                                \
	X(strategy, string, strategy)                                                              \
	X(names, u64, names)                                                                       \
	X(entries, u64, entries)                                                                   \
	X(bytes, u64, bytes)                                                                       \
	X(entries_done, u64, entries_done)                                                         \
	X(bytes_freed, u64, bytes_freed)                                                           \
	X(errors, u64, errors)                                                                     \
	X(skipped, u64, skipped)                                                                   \
	X(held_until, u64, held_until_usec)                                                        \
	X(by_time, u64, by_usec)                                                                   \
	X(started, u64, started_usec)                                                              \
	X(finished, u64, finished_usec)                                                            \
	X(attempts, u32, attempts)
/* Set once, with the entries that were moved there. */
#define STAGING "staging_fsid, staging_ino, staging_btime, staging_type"

#define COLUMN_NAME(column, type, member) ", " #column
#define COLUMN_MARK(column, type, member) ", ?"
#define COLUMN_SET(column, type, member) ", " #column " = ?"
#define COLUMN_PARAMETER(column, type, member) parameter_##type(r->member),
#define COLUMN_READ(column, type, member) r->member = read_##type(&in);

#define ALL                                                                                        \
	"SELECT id, uuid, groups" SUBMITTED(COLUMN_NAME) ", state" PROGRESS(                       \
		COLUMN_NAME) ", " STAGING " FROM "

static struct parameter parameter_u64(uint64_t v)
{
	return NUMBER(v);
}
#define parameter_u32 parameter_u64
#define parameter_state parameter_u64
#define parameter_priority parameter_u64
#define parameter_string parameter_text

static enum job_state read_state(struct row_reader *in)
{
	return (enum job_state)read_enum(in, JOB_STATES);
}

static enum job_priority read_priority(struct row_reader *in)
{
	return (enum job_priority)read_enum(in, PRIORITY_HIGH + 1);
}

static bool job_valid(const struct job_record *r)
{
	return r->state < JOB_STATES && r->resume_state < JOB_STATES &&
	       r->priority <= PRIORITY_HIGH;
}

int store_job_add(struct store *s, const struct job_record *r, uint64_t *ret_id)
{
	int e;

	if (!job_valid(r))
		return -EINVAL;
	/* The groups are in the machine's own byte order: a list of jobs does not change machines.
	 */
	e = statement_run(
		s, STATEMENT_JOB_ADD,
		"INSERT INTO jobs (uuid, groups" SUBMITTED(COLUMN_NAME) ", state" PROGRESS(
			COLUMN_NAME) ", " STAGING
				     ") VALUES (?, ?" SUBMITTED(COLUMN_MARK) ", ?" PROGRESS(
					     COLUMN_MARK) ", ?, ?, ?, ?)",
		PARAMETERS(BYTES(r->uuid, sizeof(r->uuid)),
			   BYTES(r->groups, r->n_groups * sizeof(*r->groups)),
			   SUBMITTED(COLUMN_PARAMETER) NUMBER(r->state),
			   PROGRESS(COLUMN_PARAMETER) IDENTITY(&r->staging_id)));
	if (e < 0)
		return e;
	*ret_id = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return r->state < JOB_DONE ? 0 : history_add(s, *ret_id);
}

int store_job_update(struct store *s, const struct job_record *r)
{
	int e;

	if (!job_valid(r))
		return -EINVAL;
	e = statement_change(
		s, STATEMENT_JOB_UPDATE,
		"UPDATE jobs SET state = ?" PROGRESS(COLUMN_SET) " WHERE id = ?",
		PARAMETERS(NUMBER(r->state), PROGRESS(COLUMN_PARAMETER) NUMBER(r->id)));
	return e < 0 || r->state < JOB_DONE ? e : history_add(s, r->id);
}

int store_job_staged(struct store *s, uint64_t id, const struct lasting_identity *staging_id)
{
	return statement_change(s, STATEMENT_JOB_STAGED,
				"UPDATE jobs SET (" STAGING ") = (?, ?, ?, ?) WHERE id = ?",
				PARAMETERS(IDENTITY(staging_id), NUMBER(id)));
}

int store_job_remove(struct store *s, uint64_t id)
{
	return statement_change(s, STATEMENT_JOB_REMOVE, "DELETE FROM jobs WHERE id = ?",
				PARAMETERS(NUMBER(id)));
}

/* The current row. The caller frees *ret_groups, which r->groups points to: within a row nothing is
 * aligned. Returns 0 or a negative errno. */
static int job_read(sqlite3_stmt *st, struct job_record *r, gid_t **ret_groups)
{
	struct row_reader in = { .st = st };
	const void *p;
	size_t len;

	r->id = read_u64(&in);
	p = read_bytes(&in, &len);
	if (len != sizeof(r->uuid))
		return -EUCLEAN;
	memcpy(r->uuid, p, len);
	p = read_bytes(&in, &len);
	if (len % sizeof(gid_t) != 0)
		return -EUCLEAN;
	r->groups = *ret_groups = malloc(MAX(len, (size_t)1));
	if (!r->groups)
		return -ENOMEM;
	if (len > 0)
		memcpy(*ret_groups, p, len);
	r->n_groups = len / sizeof(gid_t);
	SUBMITTED(COLUMN_READ)
	r->state = read_state(&in);
	PROGRESS(COLUMN_READ)
	r->staging_id = read_identity(&in);
	return in.error;
}

static int job_report(sqlite3_stmt *st, int (*job)(const struct job_record *r, void *userdata),
		      void *userdata)
{
	gid_t *groups = NULL;
	struct job_record r = { 0 };
	int e = job_read(st, &r, &groups);

	if (e >= 0)
		e = job(&r, userdata);
	free(groups);
	return e;
}

int store_job_get(struct store *s, uint64_t id,
		  int (*job)(const struct job_record *r, void *userdata), void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int e = statement_query(s, &st, ALL "jobs WHERE id = ?", PARAMETERS(NUMBER(id)));

	if (e >= 0)
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

int store_jobs_each(struct store *s, const struct job_filter *f,
		    int (*job)(const struct job_record *r, void *userdata), void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int e = statement_query(s, &st, each_text(f), FILTER(f));

	while (e >= 0 && (e = statement_next(s, st)) > 0) {
		e = job_report(st, job, userdata);
		if (e != 0)
			return e;
	}
	return e;
}

int store_history_purge(struct store *s, uint64_t before_usec, uint64_t limit)
{
	int e = statement_run(
		s, STATEMENT_PURGE,
		"DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE finished > 0 "
		"AND finished < ? AND state >= 5 ORDER BY finished LIMIT ?)",
		PARAMETERS(BOUND(before_usec), BOUND(MIN(limit, (uint64_t)INT_MAX))));

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
