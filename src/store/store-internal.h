/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the store share: the open store, and statements with their parameters and
 * columns. Nothing outside src/store includes this but its tests.
 *
 * Statements that write are prepared once and kept, since none of them calls back. Those that read
 * are prepared each time: a callback may well start the same one again. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>

#include "base/macros.h"
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

/* A parameter of a statement. What it points to is not copied: it lasts until the statement has
 * run. */
struct parameter {
	enum parameter_kind {
		PARAMETER_NUMBER,
		PARAMETER_BYTES,
		PARAMETER_IDENTITY /* four columns: fsid, ino, btime, type */
	} kind;
	uint64_t number; /* PARAMETER_BYTES: how many */
	const void *p;
};

#define NUMBER(v) ((struct parameter){ PARAMETER_NUMBER, (v), NULL })
/* For what is compared: larger than any number SQLite has means the largest. */
#define BOUND(v) NUMBER(MIN((uint64_t)(v), (uint64_t)INT64_MAX))
#define BYTES(p, len) ((struct parameter){ PARAMETER_BYTES, (len), (p) })
#define TEXT(v) parameter_text(v) /* NULL is "" */
#define IDENTITY(id) ((struct parameter){ PARAMETER_IDENTITY, 0, (id) })
struct parameter parameter_text(const char *v);

/* All parameters of a statement: two arguments. */
#define PARAMETERS(...)                                                                            \
	(const struct parameter[]){ __VA_ARGS__ },                                                 \
		sizeof((const struct parameter[]){ __VA_ARGS__ }) / sizeof(struct parameter)

/* Runs a statement that writes to its end. Fails with the reason where the transaction it would
 * belong to is gone: without that it would be one of its own, and durable. Returns 0 or a negative
 * errno, as store_error. */
int statement_run(struct store *s, enum statement which, const char *sql,
		  const struct parameter *parameters, size_t n);
/* The same; -ENOENT if it has changed no row. */
int statement_change(struct store *s, enum statement which, const char *sql,
		     const struct parameter *parameters, size_t n);

/* A statement that reads; finalised by its cleanup attribute. Returns 0 or a negative errno. */
int statement_query(struct store *s, sqlite3_stmt **ret, const char *sql,
		    const struct parameter *parameters, size_t n);
/* Returns 1 for a row, 0 at the end, or a negative errno. */
int statement_next(struct store *s, sqlite3_stmt *st);
void statement_finalizep(sqlite3_stmt **st);
#define _cleanup_statement_ _cleanup_(statement_finalizep)

/* Part of a transaction that can be undone alone. */
int store_savepoint(struct store *s);
int store_savepoint_keep(struct store *s);
int store_savepoint_undo(struct store *s);

/* Reads columns from the first on. */
struct row_reader {
	sqlite3_stmt *st;
	int at;
	int error; /* -EUCLEAN: one of them holds what was never written there; or -ENOMEM */
};

/* What a filter says, as parameters: ?1 since_id, ?2 states, ?3 uid, ?4 limit. */
#define FILTER(f)                                                                                  \
	PARAMETERS(BOUND((f)->since_id), NUMBER((f)->states),                                      \
		   NUMBER((f)->one_uid ? (f)->uid : UINT64_MAX),                                   \
		   BOUND((f)->limit ? (f)->limit : UINT64_MAX))

/* Of the history, those that a filter lets through. */
#define HISTORY_WHERE "(?2 = 0 OR (?2 >> outcome) & 1) AND (?3 < 0 OR owner = ?3) AND " HISTORY_PAGE
#define HISTORY_PAGE "job >= ?1 ORDER BY job LIMIT ?4"

/* Takes a job that has finished into the history. */
int history_add(struct store *s, uint64_t id);

void reader_fail(struct row_reader *r, int error);

uint64_t read_u64(struct row_reader *r);
uint32_t read_u32(struct row_reader *r);
/* A number below n. */
unsigned int read_enum(struct row_reader *r, unsigned int n);
const char *read_string(struct row_reader *r);
const void *read_bytes(struct row_reader *r, size_t *ret_len);
struct lasting_identity read_identity(struct row_reader *r);
