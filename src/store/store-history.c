/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The fields of finished jobs that lists show, in a table of their own. Reading a page of this
 * table takes a third of the time that the same fields of the full records take, and it contains no
 * jobs that are still waiting. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store-internal.h"
#include "store-schema.h"
#include "base/macros.h"

/* A line: these numbers, in the machine's own byte order, then origin and path, each with a NUL. */
struct history_line {
	uint64_t created, priority, kind, names, entries, bytes, entries_done, bytes_freed, errors,
		held_until, started, finished;
};

/* SQL's pack(): integers as eight bytes, bytes with a NUL behind them, one after the other. */
static size_t pack_one(sqlite3_value *v, char *to)
{
	int64_t n;

	if (sqlite3_value_type(v) == SQLITE_INTEGER) {
		n = sqlite3_value_int64(v);
		if (to)
			memcpy(to, &n, sizeof(n));
		return sizeof(n);
	}
	if (to) {
		const void *p = sqlite3_value_blob(v);
		size_t len = (size_t)sqlite3_value_bytes(v);

		if (len > 0)
			memcpy(to, p, len);
		to[len] = '\0';
	}
	return (size_t)sqlite3_value_bytes(v) + 1;
}

static void pack(sqlite3_context *context, int n, sqlite3_value **v)
{
	size_t len = 0;
	char *line, *at;

	for (int i = 0; i < n; i++)
		len += pack_one(v[i], NULL);
	line = at = sqlite3_malloc64(len);
	if (!line) {
		sqlite3_result_error_nomem(context);
		return;
	}
	for (int i = 0; i < n; i++)
		at += pack_one(v[i], at);
	sqlite3_result_blob64(context, line, len, sqlite3_free);
}

int history_open(struct store *s)
{
	return store_error(s->db, sqlite3_create_function_v2(s->db, "pack", -1,
							     SQLITE_UTF8 | SQLITE_DETERMINISTIC |
								     SQLITE_DIRECTONLY,
							     NULL, pack, NULL, NULL, NULL));
}

int history_add(struct store *s, uint64_t id)
{
	s->history_changed = true;
	/* Jobs from spools whose names were put back have accounts of their own, with 1 << 32
	 * added to the user. The size is an estimate of the space that the rows of the job take in
	 * the file. For each name it is the mean of the smallest and the largest row, because it
	 * would take too long to read a million of them. */
	return statement_run(
		s,
		"INSERT OR REPLACE INTO history SELECT id, uid, state, pack(created, priority, "
		"kind, names, entries, bytes, entries_done, bytes_freed, errors, held_until, "
		"started, finished, origin, path), "
		"uid + ((state IN (8, 9) AND substr(origin, 1, 6) IS CAST('spool:' AS BLOB)) << "
		"32), "
		"finished, "
		"600 + 2 * (length(path) + length(origin)) + length(groups) + length(message) + "
		"names * 200 + "
		"(SELECT coalesce(sum(length(dirs.path) + 64), 0) FROM dirs WHERE job = id) + "
		"(SELECT coalesce(sum(length(problems.path) + length(what) + 32), 0) "
		"FROM problems WHERE job = id) "
		"FROM jobs WHERE state >= 5 AND id = ?",
		PARAMETERS(NUMBER(id)));
}

/* Points into the line, which is as long as the row. */
static int line_read(const char *v, size_t len, struct job_record *r)
{
	struct history_line n;
	const char *end = v + len;

	if (!v || len < sizeof(n) + 2 || end[-1] != '\0')
		return -EUCLEAN;
	memcpy(&n, v, sizeof(n));
	r->origin = v + sizeof(n);
	r->path = r->origin + strlen(r->origin) + 1;
	if (r->path >= end || r->path + strlen(r->path) + 1 != end || n.priority > PRIORITY_HIGH ||
	    n.kind >= JOB_KINDS)
		return -EUCLEAN;
	r->created_usec = n.created;
	r->priority = (enum job_priority)n.priority;
	r->kind = (enum job_kind)n.kind;
	r->names = n.names;
	r->entries = n.entries;
	r->bytes = n.bytes;
	r->entries_done = n.entries_done;
	r->bytes_freed = n.bytes_freed;
	r->errors = n.errors;
	r->held_until_usec = n.held_until;
	r->started_usec = n.started;
	r->finished_usec = n.finished;
	return 0;
}

static const struct column history_columns[] = {
	COLUMN(U64, job_record, id),
	COLUMN(U32, job_record, uid),
	COLUMN_BELOW(JOB_STATES, job_record, state),
};

/* All states that jobs in the history have. */
#define ENDED (((1U << JOB_STATES) - 1) & ~0U << JOB_DONE)

void history_select(char *ret, const char *columns, const struct job_filter *f)
{
	uint32_t states = (f->states ? f->states : ENDED) & ENDED;
	bool all = states == ENDED && !f->one_uid;
	const char *owner = f->one_uid ? "owner = ?2 AND " : "";
	size_t n = 0;

	/* The rows of each state are a range of an index, and SQLite merges the ranges. */
	for (enum job_state s = JOB_DONE; s < JOB_STATES && !all; s++)
		if (states & 1U << s)
			n += (size_t)snprintf(ret + n, HISTORY_SELECT_SIZE - n,
					      "%sSELECT %s FROM history WHERE %soutcome = %d "
					      "AND job >= ?1",
					      n > 0 ? " UNION ALL " : "", columns, owner, (int)s);
	if (n == 0)
		n += (size_t)snprintf(ret, HISTORY_SELECT_SIZE,
				      "SELECT %s FROM history WHERE job >= ?1%s", columns,
				      all ? "" : " AND false");
	(void)snprintf(ret + n, HISTORY_SELECT_SIZE - n, " ORDER BY job LIMIT ?3");
}

int store_history_each(struct store *s, const struct job_filter *f,
		       int (*job)(const struct job_record *r, void *userdata), void *userdata)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct job_record r = {
		.mount = "", .staging = "", .host = "", .inplace = "", .message = "", .strategy = ""
	};
	char sql[HISTORY_SELECT_SIZE];
	int e;

	history_select(sql, "job, owner, outcome, line", f);
	e = statement_query(s, &st, sql, FILTER(f));
	while (e >= 0 && (e = statement_next(s, st, COLUMNS(history_columns), &r)) > 0) {
		const char *line = sqlite3_column_blob(st, ELEMENTSOF(history_columns));
		size_t len = (size_t)sqlite3_column_bytes(st, ELEMENTSOF(history_columns));

		e = line_read(line, len, &r);
		if (e == 0)
			e = job(&r, userdata);
		if (e != 0)
			return e;
	}
	return e;
}

int store_history_last(struct store *s, uint64_t *ret_id)
{
	int r;

	*ret_id = 0;
	r = statement_number(s, "SELECT job FROM history ORDER BY job DESC LIMIT 1", NULL, 0,
			     ret_id);
	return MIN(r, 0);
}
