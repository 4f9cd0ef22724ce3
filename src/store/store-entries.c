/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store-internal.h"
#include "base/macros.h"

#define MAX_PROBLEMS "1000"

int store_dir_add(struct store *s, uint64_t job, uint64_t dir, const char *path,
		  const struct lasting_identity *id)
{
	return statement_run(s, STATEMENT_DIR_ADD,
			     "INSERT INTO dirs (job, dir, path, fsid, ino, btime, type) VALUES "
			     "(?, ?, ?, ?, ?, ?, ?)",
			     PARAMETERS(NUMBER(job), NUMBER(dir), TEXT(path), IDENTITY(id)));
}

int store_dirs_each(struct store *s, uint64_t job,
		    int (*dir)(uint64_t dir, const char *path, const struct lasting_identity *id,
			       void *userdata),
		    void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int r = statement_query(s, &st,
				"SELECT dir, path, fsid, ino, btime, type FROM dirs "
				"WHERE job = ? ORDER BY dir",
				PARAMETERS(NUMBER(job)));

	while (r >= 0 && (r = statement_next(s, st)) > 0) {
		struct row_reader in = { .st = st };
		uint64_t number = read_u64(&in);
		const char *path = read_string(&in);
		struct lasting_identity id = read_identity(&in);

		r = in.error < 0 ? in.error : dir(number, path, &id, userdata);
		if (r != 0)
			return r;
	}
	return r;
}

int store_entry_add(struct store *s, uint64_t job, const struct entry_record *e)
{
	if (e->state >= ENTRY_STATES)
		return -EINVAL;
	return statement_run(
		s, STATEMENT_ENTRY_ADD,
		"INSERT INTO entries (job, seq, dir, name, fsid, ino, btime, type, state) "
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		PARAMETERS(NUMBER(job), NUMBER(e->seq), NUMBER(e->dir), TEXT(e->name),
			   IDENTITY(&e->id), NUMBER(e->state)));
}

int store_entries_set(struct store *s, uint64_t job, uint64_t from, uint64_t to,
		      enum entry_state state)
{
	if (state >= ENTRY_STATES)
		return -EINVAL;
	return statement_run(s, STATEMENT_ENTRIES_SET,
			     "UPDATE entries SET state = ? WHERE job = ? AND seq BETWEEN ? AND ?",
			     PARAMETERS(NUMBER(state), NUMBER(job), BOUND(from), BOUND(to)));
}

int store_entries_each(struct store *s, uint64_t job, uint64_t from, uint64_t limit,
		       int (*entry)(const struct entry_record *e, void *userdata), void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int r = statement_query(
		s, &st,
		"SELECT seq, dir, name, fsid, ino, btime, type, state FROM "
		"entries WHERE job = ? AND seq >= ? ORDER BY seq LIMIT ?",
		PARAMETERS(NUMBER(job), BOUND(from), BOUND(limit ? limit : UINT64_MAX)));

	while (r >= 0 && (r = statement_next(s, st)) > 0) {
		struct row_reader in = { .st = st };
		struct entry_record e = { 0 };

		e.seq = read_u64(&in);
		e.dir = read_u64(&in);
		e.name = read_string(&in);
		e.id = read_identity(&in);
		e.state = (enum entry_state)read_enum(&in, ENTRY_STATES);
		r = in.error < 0 ? in.error : entry(&e, userdata);
		if (r != 0)
			return r;
	}
	return r;
}

int store_problem_add(struct store *s, uint64_t job, const struct problem_record *p)
{
	return statement_run(
		s, STATEMENT_PROBLEM_ADD,
		"INSERT INTO problems (job, seq, path, what, error, is_error) SELECT ?1, n, ?2, "
		"?3, ?4, ?5 FROM (SELECT coalesce(max(seq), 0) + 1 AS n FROM problems WHERE "
		"job = ?1) WHERE n <= " MAX_PROBLEMS,
		PARAMETERS(NUMBER(job), TEXT(p->path), TEXT(p->what),
			   NUMBER((uint64_t)(int64_t)p->error), NUMBER(p->is_error)));
}

int store_problems_each(struct store *s, uint64_t job, uint64_t offset, uint64_t limit,
			int (*problem)(const struct problem_record *p, void *userdata),
			void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int r = statement_query(
		s, &st,
		"SELECT path, what, error, is_error FROM problems WHERE job = ? "
		"ORDER BY seq LIMIT ? OFFSET ?",
		PARAMETERS(NUMBER(job), BOUND(limit ? limit : UINT64_MAX), BOUND(offset)));

	while (r >= 0 && (r = statement_next(s, st)) > 0) {
		struct row_reader in = { .st = st };
		struct problem_record p = { 0 };

		p.path = read_string(&in);
		p.what = read_string(&in);
		p.error = (int)(int64_t)read_u64(&in);
		p.is_error = read_enum(&in, 2) == 1;
		r = in.error < 0 ? in.error : problem(&p, userdata);
		if (r != 0)
			return r;
	}
	return r;
}

const char *entry_state_name(enum entry_state s)
{
	static const char *const names[ENTRY_STATES] = {
		[ENTRY_WAITING] = "waiting", [ENTRY_STAGED] = "staged",     [ENTRY_GONE] = "gone",
		[ENTRY_KEPT] = "kept",       [ENTRY_RESTORED] = "restored",
	};

	return names[s];
}

int store_meta_set(struct store *s, const char *key, const char *value)
{
	return statement_run(s, STATEMENT_META_SET,
			     "INSERT INTO meta (key, value) VALUES (?, ?) "
			     "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
			     PARAMETERS(TEXT(key), TEXT(value)));
}

int store_meta_get(struct store *s, const char *key, char **ret)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct row_reader in = { 0 };
	char *value;
	int r = statement_query(s, &st, "SELECT value FROM meta WHERE key = ?",
				PARAMETERS(TEXT(key)));

	if (r >= 0)
		r = statement_next(s, st);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	in.st = st;
	value = strdup(read_string(&in));
	if (!value || in.error < 0) {
		free(value);
		return in.error < 0 ? in.error : -ENOMEM;
	}
	*ret = value;
	return 0;
}
