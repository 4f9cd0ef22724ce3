/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store-internal.h"
#include "base/macros.h"

/* The columns of a job, in the order of its table: the number of each is that of its parameter. */
static const struct column job_columns[] = {
	COLUMN(U64, job_record, id), COLUMN(UUID, job_record, uuid), COLUMN(U32, job_record, uid),
	COLUMN(U32, job_record, gid),
	/* In the machine's own byte order: a list of jobs does not change machines. */
	COLUMN(IDS, job_record, groups), COLUMN(TEXT, job_record, origin),
	COLUMN(TEXT, job_record, path), COLUMN(U64, job_record, created_usec),
	COLUMN_BELOW(JOB_STATES, job_record, state), /* ?9 */
	COLUMN_BELOW(JOB_STATES, job_record, resume_state),
	COLUMN_BELOW(PRIORITY_HIGH + 1, job_record, priority), COLUMN(TEXT, job_record, mount),
	COLUMN(TEXT, job_record, staging), COLUMN(TEXT, job_record, inplace),
	COLUMN(TEXT, job_record, message), COLUMN(TEXT, job_record, strategy),
	COLUMNS_IDENTITY(job_record, staging_id), /* ?17 to ?20 */
	COLUMN(U64, job_record, names), COLUMN(U64, job_record, entries),
	COLUMN(U64, job_record, bytes), COLUMN(U64, job_record, entries_done),
	COLUMN(U64, job_record, bytes_freed), COLUMN(U64, job_record, errors),
	COLUMN(U64, job_record, skipped), COLUMN(U64, job_record, held_until_usec),
	COLUMN(U64, job_record, by_usec), COLUMN(U64, job_record, started_usec),
	COLUMN(U64, job_record, finished_usec), COLUMN(U32, job_record, attempts), /* ?32 */
	COLUMN_BELOW(JOB_KINDS, job_record, kind), COLUMN(TEXT, job_record, host), /* ?34 */
	COLUMN(U64, job_record, others_units), COLUMN(U64, job_record, others_entries),
	COLUMN(U64, job_record, others_bytes), /* ?37 */
};
_Static_assert(offsetof(struct job_record, n_groups) ==
		       offsetof(struct job_record, groups) + sizeof(gid_t *),
	       "a COLUMN_IDS has its number behind it");

int store_job_add(struct store *s, const struct job_record *r, uint64_t *ret_id)
{
	int e = statement_run(
		s,
		"INSERT INTO jobs VALUES (NULL, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
		"?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, "
		"?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37)",
		PARAMETERS(RECORD(job_columns, r)));

	if (e < 0)
		return e;
	*ret_id = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return r->state < JOB_DONE ? 0 : history_add(s, *ret_id);
}

int store_job_update(struct store *s, const struct job_record *r)
{
	int e = statement_change(
		s,
		"UPDATE jobs SET (state, resume_state, priority, mount, staging, inplace, message, "
		"strategy, names, entries, bytes, entries_done, bytes_freed, errors, skipped, "
		"held_until, by_time, started, finished, attempts, host, "
		"others_units, others_entries, others_bytes) = "
		"(?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, "
		"?29, ?30, ?31, ?32, ?34, ?35, ?36, ?37) WHERE id = ?1",
		PARAMETERS(RECORD(job_columns, r)));

	return e < 0 || r->state < JOB_DONE ? e : history_add(s, r->id);
}

int store_windows_move(struct store *s, int64_t usec)
{
	return statement_run(s,
			     "UPDATE jobs SET held_until = max(held_until + ?, 1) "
			     "WHERE state < 5 AND started = 0 AND held_until > 0",
			     PARAMETERS(NUMBER((uint64_t)usec)));
}

int store_job_staged(struct store *s, uint64_t id, const struct lasting_identity *staging_id)
{
	return statement_change(
		s,
		"UPDATE jobs SET (staging_fsid, staging_ino, staging_btime, staging_type) = "
		"(?, ?, ?, ?) WHERE id = ?",
		PARAMETERS(NUMBER(staging_id->fsid), NUMBER(staging_id->ino),
			   NUMBER((uint64_t)staging_id->btime_nsec), NUMBER(staging_id->type),
			   NUMBER(id)));
}

int store_job_remove(struct store *s, uint64_t id)
{
	return statement_change(s, "DELETE FROM jobs WHERE id = ?", PARAMETERS(NUMBER(id)));
}

/* Reads the next row, if there is one, and hands it on. Returns what the callback returned, with
 * *ret_found set, or as statement_next. */
static int job_report(struct store *s, sqlite3_stmt *st, bool *ret_found,
		      int (*job)(const struct job_record *r, void *userdata), void *userdata)
{
	_cleanup_free_ gid_t *groups = NULL;
	struct job_record r = { 0 };
	int e = statement_next(s, st, COLUMNS(job_columns), &r);

	*ret_found = e > 0;
	if (e <= 0)
		return e;
	/* Within a row nothing is aligned. */
	groups = calloc(r.n_groups + 1, sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	if (r.n_groups > 0)
		memcpy(groups, r.groups, r.n_groups * sizeof(*groups));
	r.groups = groups;
	return job(&r, userdata);
}

int store_job_get(struct store *s, uint64_t id,
		  int (*job)(const struct job_record *r, void *userdata), void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int e = statement_query(s, &st, "SELECT * FROM jobs WHERE id = ?", PARAMETERS(NUMBER(id)));
	bool found = true;

	if (e >= 0)
		e = job_report(s, st, &found, job, userdata);
	return found || e < 0 ? e : -ENOENT;
}

int job_record_copy(struct job_record *ret, const struct job_record *r, char **ret_texts)
{
	const char **const texts[] = { &ret->origin, &ret->path,    &ret->mount,   &ret->staging,
				       &ret->host,   &ret->inplace, &ret->message, &ret->strategy };
	size_t lens[ELEMENTSOF(texts)], len = 0;
	char *at;

	*ret = *r;
	/* Most of them are empty. */
	for (size_t i = 0; i < ELEMENTSOF(texts); i++)
		len += lens[i] = **texts[i] ? strlen(*texts[i]) + 1 : 0;
	at = *ret_texts = malloc(len + 1);
	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < ELEMENTSOF(texts); at += lens[i++])
		*texts[i] = lens[i] > 0 ? memcpy(at, *texts[i], lens[i]) : "";
	ret->groups = NULL;
	ret->n_groups = 0;
	return 0;
}

int store_jobs_each(struct store *s, const struct job_filter *f,
		    int (*job)(const struct job_record *r, void *userdata), void *userdata)
{
	const uint32_t unfinished = (1U << JOB_DONE) - 1;
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	char history[HISTORY_SELECT_SIZE], sql[HISTORY_SELECT_SIZE + 64];
	bool found;
	int e;

	if (f->states != 0 && !(f->states & ~unfinished)) {
		e = statement_query(s, &st,
				    "SELECT * FROM jobs INDEXED BY jobs_unfinished WHERE state < 5 "
				    "AND id >= ?1 AND (?2 >> state) & 1 AND (?3 < 0 OR uid = ?3) "
				    "ORDER BY id LIMIT ?4",
				    PARAMETERS(BOUND(f->since_id), NUMBER(f->states),
					       NUMBER(f->one_uid ? f->uid : UINT64_MAX),
					       BOUND(f->limit ? f->limit : UINT64_MAX)));
	} else {
		history_select(history, "job", f);
		(void)snprintf(sql, sizeof(sql),
			       "SELECT * FROM jobs WHERE id IN (SELECT job FROM (%s)) ORDER BY id",
			       history);
		e = statement_query(s, &st, sql, FILTER(f));
	}
	found = e >= 0;
	while (e == 0 && found)
		e = job_report(s, st, &found, job, userdata);
	return e;
}
_Static_assert(JOB_DONE == 5, "schema and queries know where finished states begin");

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

const char *job_kind_name(enum job_kind k)
{
	static const char *const names[JOB_KINDS] = {
		[JOB_DELETE] = "delete",
		[JOB_RMDIR] = "rmdir",
	};

	return names[k];
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
