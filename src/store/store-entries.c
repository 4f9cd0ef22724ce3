/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store-internal.h"
#include "base/macros.h"

#define MAX_PROBLEMS "1000"
#define MAX_PROBLEMS_BYTES "262144"

struct dir_record {
	uint64_t dir;
	const char *path;
	struct lasting_identity id;
};

static const struct column dir_columns[] = {
	COLUMN(U64, dir_record, dir),
	COLUMN(TEXT, dir_record, path),
	COLUMNS_IDENTITY(dir_record, id),
};

static const struct column entry_columns[] = {
	COLUMN(U64, entry_record, seq),
	COLUMN(U64, entry_record, dir),
	COLUMN(TEXT, entry_record, name),
	COLUMNS_IDENTITY(entry_record, id),
	COLUMN_BELOW(ENTRY_STATES, entry_record, state),
};

static const struct column problem_columns[] = {
	COLUMN(TEXT, problem_record, path),
	COLUMN(TEXT, problem_record, what),
	COLUMN(INT, problem_record, error),
	COLUMN(BOOL, problem_record, is_error),
};

int store_dir_add(struct store *s, uint64_t job, uint64_t dir, const char *path,
		  const struct lasting_identity *id)
{
	struct dir_record d = { dir, path, *id };

	return statement_run(s, "INSERT INTO dirs VALUES (?, ?, ?, ?, ?, ?, ?)",
			     PARAMETERS(NUMBER(job), RECORD(dir_columns, &d)));
}

int store_dirs_each(struct store *s, uint64_t job, uint64_t from, uint64_t to,
		    int (*dir)(uint64_t dir, const char *path, const struct lasting_identity *id,
			       void *userdata),
		    void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct dir_record d;
	int r = statement_query(s, &st,
				"SELECT dir, path, fsid, ino, btime, type FROM dirs "
				"WHERE job = ? AND dir BETWEEN ? AND ? ORDER BY dir",
				PARAMETERS(NUMBER(job), BOUND(from), BOUND(to)));

	while (r >= 0 && (r = statement_next(s, st, COLUMNS(dir_columns), &d)) > 0) {
		r = dir(d.dir, d.path, &d.id, userdata);
		if (r != 0)
			return r;
	}
	return r;
}

int store_entry_add(struct store *s, uint64_t job, const struct entry_record *e)
{
	return statement_run(s, "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			     PARAMETERS(NUMBER(job), RECORD(entry_columns, e)));
}

int store_entries_set(struct store *s, uint64_t job, uint64_t from, uint64_t to,
		      enum entry_state state)
{
	if (state >= ENTRY_STATES)
		return -EINVAL;
	return statement_run(s,
			     "UPDATE entries SET state = ? WHERE job = ? AND seq BETWEEN ? AND ?",
			     PARAMETERS(NUMBER(state), NUMBER(job), BOUND(from), BOUND(to)));
}

static int entries_each(struct store *s, const char *sql, uint64_t job, uint64_t from,
			uint64_t limit, int (*entry)(const struct entry_record *e, void *userdata),
			void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct entry_record e;
	int r = statement_query(
		s, &st, sql,
		PARAMETERS(NUMBER(job), BOUND(from), BOUND(limit ? limit : UINT64_MAX)));

	while (r >= 0 && (r = statement_next(s, st, COLUMNS(entry_columns), &e)) > 0) {
		r = entry(&e, userdata);
		if (r != 0)
			return r;
	}
	return r;
}

int store_entries_each(struct store *s, uint64_t job, uint64_t from, uint64_t limit,
		       int (*entry)(const struct entry_record *e, void *userdata), void *userdata)
{
	return entries_each(s,
			    "SELECT seq, dir, name, fsid, ino, btime, type, state FROM entries "
			    "WHERE job = ? AND seq >= ? ORDER BY seq LIMIT ?",
			    job, from, limit, entry, userdata);
}

int store_kept_each(struct store *s, uint64_t job, uint64_t from, uint64_t limit,
		    int (*entry)(const struct entry_record *e, void *userdata), void *userdata)
{
	return entries_each(s,
			    "SELECT seq, dir, name, fsid, ino, btime, type, state "
			    "FROM entries INDEXED BY entries_kept "
			    "WHERE job = ? AND seq >= ? AND state = 3 ORDER BY seq LIMIT ?",
			    job, from, limit, entry, userdata);
}
_Static_assert(ENTRY_KEPT == 3, "the index and its query know the state");

struct returned_row {
	struct lasting_identity id;
	uint64_t finished_usec;
};

int store_returned_each(struct store *s,
			int (*entry)(const struct lasting_identity *id, uint64_t finished_usec,
				     void *userdata),
			void *userdata)
{
	static const struct column columns[] = { COLUMNS_IDENTITY(returned_row, id),
						 COLUMN(U64, returned_row, finished_usec) };
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct returned_row row;
	int r = statement_query(s, &st,
				"SELECT e.fsid, e.ino, e.btime, e.type, j.finished FROM jobs AS j "
				"INDEXED BY jobs_returned CROSS JOIN entries AS e ON e.job = j.id "
				"WHERE substr(j.origin, 1, 6) = CAST('spool:' AS BLOB) "
				"AND (j.finished = 0 OR j.state IN (8, 9)) "
				"AND (e.state = ?1 OR (e.state = ?2 AND j.state = 8))",
				PARAMETERS(NUMBER(ENTRY_RESTORED), NUMBER(ENTRY_WAITING)));

	while (r >= 0 && (r = statement_next(s, st, COLUMNS(columns), &row)) > 0) {
		r = entry(&row.id, row.finished_usec, userdata);
		if (r != 0)
			return r;
	}
	return r;
}

_Static_assert(JOB_CANCELLED == 8 && JOB_RESTORED == 9, "the index and its query know the states");

int store_problem_add(struct store *s, uint64_t job, const struct problem_record *p)
{
	return statement_run(s,
			     "INSERT INTO problems (job, seq, path, what, error, is_error) "
			     "SELECT ?1, n, ?2, ?3, ?4, ?5 FROM (SELECT coalesce(max(seq), 0) + 1 "
			     "AS n, coalesce(sum(length(path) + length(what)), 0) AS size "
			     "FROM problems WHERE job = ?1) WHERE n <= " MAX_PROBLEMS
			     " AND size < " MAX_PROBLEMS_BYTES,
			     PARAMETERS(NUMBER(job), RECORD(problem_columns, p)));
}

int store_problems_each(struct store *s, uint64_t job, uint64_t offset, uint64_t limit,
			int (*problem)(const struct problem_record *p, void *userdata),
			void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct problem_record p;
	int r = statement_query(
		s, &st,
		"SELECT path, what, error, is_error FROM problems WHERE job = ? "
		"ORDER BY seq LIMIT ? OFFSET ?",
		PARAMETERS(NUMBER(job), BOUND(limit ? limit : UINT64_MAX), BOUND(offset)));

	while (r >= 0 && (r = statement_next(s, st, COLUMNS(problem_columns), &p)) > 0) {
		r = problem(&p, userdata);
		if (r != 0)
			return r;
	}
	return r;
}

const char *entry_state_name(enum entry_state s)
{
	static const char *const names[ENTRY_STATES] = {
		[ENTRY_WAITING] = "waiting", [ENTRY_STAGED] = "staged",     [ENTRY_GONE] = "gone",
		[ENTRY_KEPT] = "kept",       [ENTRY_RESTORED] = "restored", [ENTRY_LOST] = "lost",
	};

	return names[s];
}

int store_meta_set(struct store *s, const char *key, const char *value)
{
	return statement_run(s,
			     "INSERT INTO meta (key, value) VALUES (?, ?) "
			     "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
			     PARAMETERS(TEXT(key), TEXT(value)));
}

int store_meta_get(struct store *s, const char *key, char **ret)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	const char *value;
	int r = statement_query(s, &st, "SELECT value FROM meta WHERE key = ?",
				PARAMETERS(TEXT(key)));

	if (r >= 0)
		r = statement_next(s, st, COLUMNS(column_text), &value);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	*ret = strdup(value);
	return *ret ? 0 : -ENOMEM;
}
