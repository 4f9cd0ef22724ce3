/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>

#include "store-internal.h"
#include "base/macros.h"

#define MAX_PROBLEMS "1000"

int store_dir_add(struct store *s, uint64_t job, uint64_t dir, const char *path,
		  const struct lasting_identity *id)
{
	struct binder b = { 0 };
	int r = statement_get(s, STATEMENT_DIR_ADD,
			      "INSERT INTO dirs (job, dir, path, fsid, ino, btime, type) VALUES "
			      "(?, ?, ?, ?, ?, ?, ?)",
			      &b.st);

	if (r < 0)
		return r;
	bind_u64(&b, job);
	bind_u64(&b, dir);
	bind_string(&b, path);
	bind_identity(&b, id);
	return b.rc != SQLITE_OK ? store_error(s->db, b.rc) : statement_run(s, b.st);
}

int store_dirs_each(struct store *s, uint64_t job,
		    int (*dir)(uint64_t dir, const char *path, const struct lasting_identity *id,
			       void *userdata),
		    void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct binder b = { 0 };
	int r = statement_prepare(s,
				  "SELECT dir, path, fsid, ino, btime, type FROM dirs "
				  "WHERE job = ? ORDER BY dir",
				  &st);

	if (r < 0)
		return r;
	b.st = st;
	bind_u64(&b, job);
	while ((r = statement_next(s, st)) > 0) {
		struct reader in = { .st = st };
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
	struct binder b = { 0 };
	int r;

	if (e->state >= ENTRY_STATES)
		return -EINVAL;
	r = statement_get(
		s, STATEMENT_ENTRY_ADD,
		"INSERT INTO entries (job, seq, dir, name, fsid, ino, btime, type, state) "
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		&b.st);
	if (r < 0)
		return r;
	bind_u64(&b, job);
	bind_u64(&b, e->seq);
	bind_u64(&b, e->dir);
	bind_string(&b, e->name);
	bind_identity(&b, &e->id);
	bind_u64(&b, e->state);
	return b.rc != SQLITE_OK ? store_error(s->db, b.rc) : statement_run(s, b.st);
}

int store_entries_set(struct store *s, uint64_t job, uint64_t from, uint64_t to,
		      enum entry_state state)
{
	struct binder b = { 0 };
	int r;

	if (state >= ENTRY_STATES)
		return -EINVAL;
	r = statement_get(s, STATEMENT_ENTRIES_SET,
			  "UPDATE entries SET state = ? WHERE job = ? AND seq BETWEEN ? AND ?",
			  &b.st);
	if (r < 0)
		return r;
	bind_u64(&b, state);
	bind_u64(&b, job);
	bind_bound(&b, from);
	bind_bound(&b, to);
	return b.rc != SQLITE_OK ? store_error(s->db, b.rc) : statement_run(s, b.st);
}

int store_entries_each(struct store *s, uint64_t job, uint64_t from, uint64_t limit,
		       int (*entry)(const struct entry_record *e, void *userdata), void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct binder b = { 0 };
	int r = statement_prepare(s,
				  "SELECT seq, dir, name, fsid, ino, btime, type, state FROM "
				  "entries WHERE job = ? AND seq >= ? ORDER BY seq LIMIT ?",
				  &st);

	if (r < 0)
		return r;
	b.st = st;
	bind_u64(&b, job);
	bind_bound(&b, from);
	bind_bound(&b, limit ? limit : UINT64_MAX);
	while ((r = statement_next(s, st)) > 0) {
		struct reader in = { .st = st };
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
	struct binder b = { 0 };
	int r = statement_get(s, STATEMENT_PROBLEM_ADD,
			      "INSERT INTO problems (job, seq, path, what, error, is_error) "
			      "SELECT ?1, n, ?2, ?3, ?4, ?5 FROM (SELECT coalesce(max(seq), 0) + 1 "
			      "AS n FROM problems WHERE job = ?1) WHERE n <= " MAX_PROBLEMS,
			      &b.st);

	if (r < 0)
		return r;
	bind_u64(&b, job);
	bind_string(&b, p->path);
	bind_string(&b, p->what);
	bind_u64(&b, (uint64_t)(int64_t)p->error);
	bind_u64(&b, p->is_error);
	return b.rc != SQLITE_OK ? store_error(s->db, b.rc) : statement_run(s, b.st);
}

int store_problems_each(struct store *s, uint64_t job, uint64_t offset, uint64_t limit,
			int (*problem)(const struct problem_record *p, void *userdata),
			void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct binder b = { 0 };
	int r = statement_prepare(s,
				  "SELECT path, what, error, is_error FROM problems WHERE job = ? "
				  "ORDER BY seq LIMIT ? OFFSET ?",
				  &st);

	if (r < 0)
		return r;
	b.st = st;
	bind_u64(&b, job);
	bind_bound(&b, limit ? limit : UINT64_MAX);
	bind_bound(&b, offset);
	while ((r = statement_next(s, st)) > 0) {
		struct reader in = { .st = st };
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
