/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the store share: the open store, and statements with their parameters and
 * columns. Nothing outside src/store includes this but its tests.
 *
 * Statements that write are prepared once and kept, since none of them calls back. Those that read
 * are prepared each time: a callback may well start the same one again. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>

#include "store.h"

enum statement {
	STATEMENT_BEGIN,
	STATEMENT_COMMIT,
	STATEMENT_ROLLBACK,
	STATEMENT_SAVEPOINT,
	STATEMENT_RELEASE,
	STATEMENT_UNDO,
	STATEMENT_JOB_ADD,
	STATEMENT_JOB_UPDATE,
	STATEMENT_JOB_STAGED,
	STATEMENT_JOB_REMOVE,
	STATEMENT_HISTORY_ADD,
	STATEMENT_META_SET,
	STATEMENT_DIR_ADD,
	STATEMENT_ENTRY_ADD,
	STATEMENT_ENTRIES_SET,
	STATEMENT_PROBLEM_ADD,
	STATEMENT_PURGE,
	STATEMENTS
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *statements[STATEMENTS];
	sqlite3_vfs vfs; /* the system's own, but for how it makes a path */
	char vfs_name[32];
	int dir_fd; /* the state directory; holds its lock */
	uint64_t reserve_bytes;
	bool is_short;  /* of room: the reserve has been given up */
	int unreserved; /* negative errno: why there is no reserve, though there is room */
	int lost;       /* negative errno: why SQLite undid the transaction by itself */
	bool vfs_registered;
	bool in_transaction;
};

/* Negative errno for a result code of SQLite; 0 for SQLITE_OK, _ROW and _DONE. */
int store_error(sqlite3 *db, int rc);

/* A statement that writes. Fails with the reason where the transaction it would belong to is gone:
 * without that it would be one of its own, and durable. */
int statement_get(struct store *s, enum statement which, const char *sql, sqlite3_stmt **ret);
/* Runs it to its end and makes it ready for the next time. */
int statement_run(struct store *s, sqlite3_stmt *st);

/* A statement that reads; finalised by its cleanup attribute. */
int statement_prepare(struct store *s, const char *sql, sqlite3_stmt **ret);
/* Returns 1 for a row, 0 at the end, or a negative errno. */
int statement_next(struct store *s, sqlite3_stmt *st);
void statement_finalizep(sqlite3_stmt **st);
#define _cleanup_statement_ _cleanup_(statement_finalizep)

/* Part of a transaction that can be undone alone. */
int store_savepoint(struct store *s);
int store_savepoint_keep(struct store *s);
int store_savepoint_undo(struct store *s);

/* Binds parameters from the first on. What goes wrong is kept in rc. Nothing is copied: what is
 * bound must last until the statement has run. */
struct binder {
	sqlite3_stmt *st;
	int at;
	int rc;
};

void bind_u64(struct binder *b, uint64_t v);
/* For what is compared: larger than any number SQLite has means the largest. */
void bind_bound(struct binder *b, uint64_t v);
void bind_bytes(struct binder *b, const void *p, size_t len);
void bind_string(struct binder *b, const char *v); /* NULL is "" */
void bind_identity(struct binder *b, const struct lasting_identity *id);

/* Reads columns from the first on. */
struct reader {
	sqlite3_stmt *st;
	int at;
	int error; /* -EUCLEAN: one of them holds what was never written there; or -ENOMEM */
};

/* Binds what a filter says: ?1 since_id, ?2 states, ?3 uid, ?4 limit. */
int filter_bind(struct store *s, sqlite3_stmt *st, const struct job_filter *f);

/* Of the history, those that a filter lets through. */
#define HISTORY_WHERE "(?2 = 0 OR (?2 >> outcome) & 1) AND (?3 < 0 OR owner = ?3) AND " HISTORY_PAGE
#define HISTORY_PAGE "job >= ?1 ORDER BY job LIMIT ?4"

/* Takes a job that has finished into the history. */
int history_add(struct store *s, uint64_t id);

void reader_fail(struct reader *r, int error);

uint64_t read_u64(struct reader *r);
uint32_t read_u32(struct reader *r);
/* A number below n. */
unsigned int read_enum(struct reader *r, unsigned int n);
const char *read_string(struct reader *r);
struct lasting_identity read_identity(struct reader *r);
