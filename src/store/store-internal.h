/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the store share: the open store, statements, and which columns of a row are
 * which members of a record. Nothing outside src/store includes this but its tests.
 *
 * Statements that write are prepared once and kept, since none of them calls back. Those that read
 * are prepared each time: a callback may well start the same one again. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>

#include "base/macros.h"
#include "store-vfs.h"
#include "store.h"

/* There is room for all that write, and some more. */
#define STATEMENTS_MOST 24

struct store {
	sqlite3 *db;
	struct {
		const char *sql; /* which it is: the same literal each time */
		sqlite3_stmt *st;
	} statements[STATEMENTS_MOST];
	struct store_vfs *vfs;
	struct store *reads; /* the store that this is a reader of, which owns vfs and dir_fd; NULL
			      * for a store that writes */
	int dir_fd;          /* the state directory */
	int lock_fd;         /* holds the lock of the state directory */
	unsigned log_pages;  /* the log is copied into the database when it has this many */
	uint64_t reserve_bytes;
	struct history_limits limits;
	bool shrunk; /* pages were freed at the end of the file, which was not truncated yet */
	bool history_changed; /* jobs or limits have changed since the last check of the limits */
	bool is_short;        /* of room: the reserve has been given up */
	int unreserved;       /* negative errno: why there is no reserve, though there is room */
	int lost;             /* negative errno: why SQLite undid the transaction by itself */
	bool lazy;            /* commits are not flushed */
	bool in_transaction;
};

/* Negative errno for a result code of SQLite; 0 for SQLITE_OK, _ROW and _DONE. */
int store_error(sqlite3 *db, int rc);

/* Where in a record the value of a column is. */
struct column {
	size_t offset;
	enum column_kind {
		COLUMN_U64,  /* or int64_t */
		COLUMN_U32,  /* or an enum */
		COLUMN_INT,  /* int */
		COLUMN_BOOL, /* bool */
		COLUMN_TEXT, /* const char *; NULL is "" */
		COLUMN_UUID, /* uint8_t[16] */
		COLUMN_IDS,  /* const gid_t *, and behind it a size_t: how many */
	} kind;
	unsigned below; /* what a COLUMN_U32 has is less; 0: no limit */
};

#define COLUMN_AT(offset, kind)                                                                    \
	{                                                                                          \
		(offset), COLUMN_##kind, 0                                                         \
	}
#define COLUMN(kind, of, member) COLUMN_AT(offsetof(struct of, member), kind)
#define COLUMN_BELOW(limit, of, member)                                                            \
	{                                                                                          \
		offsetof(struct of, member), COLUMN_U32, (limit)                                   \
	}
/* Four columns: fsid, ino, btime, type. */
#define COLUMNS_IDENTITY(of, member) COLUMNS_OF_IDENTITY(offsetof(struct of, member))
#define COLUMNS_OF_IDENTITY(at)                                                                    \
	COLUMN_AT((at) + offsetof(struct lasting_identity, fsid), U64),                            \
		COLUMN_AT((at) + offsetof(struct lasting_identity, ino), U64),                     \
		COLUMN_AT((at) + offsetof(struct lasting_identity, btime_nsec), U64),              \
		COLUMN_AT((at) + offsetof(struct lasting_identity, type), U32)

/* Of a single value. */
extern const struct column column_number[1], column_text[1];

/* Parameters of a statement, one for each column. What a record points to is not copied: it lasts
 * until the statement has run. */
struct parameters {
	const struct column *columns;
	size_t n;
	const void *record;
};

#define NUMBER(v)                                                                                  \
	{                                                                                          \
		column_number, 1, &(const uint64_t)                                                \
		{                                                                                  \
			(v)                                                                        \
		}                                                                                  \
	}
/* For what is compared: larger than any number SQLite has means the largest. */
#define BOUND(v) NUMBER(MIN((uint64_t)(v), (uint64_t)INT64_MAX))
#define TEXT(v)                                                                                    \
	{                                                                                          \
		column_text, 1, &(const char *const)                                               \
		{                                                                                  \
			(v)                                                                        \
		}                                                                                  \
	}
#define RECORD(columns, record)                                                                    \
	{                                                                                          \
		columns, ELEMENTSOF(columns), (record)                                             \
	}

/* All parameters of a statement: two arguments. */
#define PARAMETERS(...)                                                                            \
	(const struct parameters[]){ __VA_ARGS__ },                                                \
		sizeof((const struct parameters[]){ __VA_ARGS__ }) / sizeof(struct parameters)

/* Runs statements without parameters, one after another. Returns 0 or a negative errno. */
int statement_exec(struct store *s, const char *sql);

/* Runs a statement that writes to its end. `sql` is a literal. Fails with the reason where the
 * transaction it would belong to is gone: without that it would be one of its own, and durable.
 * Returns 0 or a negative errno, as store_error; -EINVAL if a value is not below its limit. */
int statement_run(struct store *s, const char *sql, const struct parameters *parameters, size_t n);
/* The same; -ENOENT if it has changed no row. */
int statement_change(struct store *s, const char *sql, const struct parameters *parameters,
		     size_t n);

/* A statement that reads; finalised by its cleanup attribute. Returns 0 or a negative errno. */
int statement_query(struct store *s, sqlite3_stmt **ret, const char *sql,
		    const struct parameters *parameters, size_t n);
/* Runs a query and reads the number in the first column of its first row. Returns 1, 0 if there is
 * no row, or a negative errno. */
int statement_number(struct store *s, const char *sql, const struct parameters *parameters,
		     size_t n, uint64_t *ret);
/* Fills the record in with the first columns of the next row. Returns 1 for a row, 0 at the end, or
 * a negative errno; -EUCLEAN if a column holds what was never written there. The ids of a
 * COLUMN_IDS may be anywhere in memory, aligned or not. */
int statement_next(struct store *s, sqlite3_stmt *st, const struct column *columns, size_t n,
		   void *record);
#define COLUMNS(columns) columns, ELEMENTSOF(columns)
void statement_finalizep(sqlite3_stmt **st);
#define _cleanup_statement_ _cleanup_(statement_finalizep)

/* Does a part of a transaction; where the work fails, that is undone and nothing else. Returns what
 * the work returned, or a negative errno. */
int store_part(struct store *s, int (*work)(struct store *s, void *userdata), void *userdata);

/* The parameters of the text that history_select() writes: ?1 since_id, ?2 uid, ?3 limit. */
#define FILTER(f)                                                                                  \
	PARAMETERS(BOUND((f)->since_id), NUMBER((f)->uid),                                         \
		   BOUND((f)->limit ? (f)->limit : UINT64_MAX))

/* Large enough for any text of history_select(). */
#define HISTORY_SELECT_SIZE 1024

/* Writes a SELECT of the rows of the history that a filter lets through, in the order of their
 * jobs. An index leads to each of the rows, so the cost depends on the rows found and not on the
 * length of the history. `columns` are the columns to select, of which the first is "job". */
void history_select(char *ret, const char *columns, const struct job_filter *f);

/* Takes a job that has finished into the history. */
int history_add(struct store *s, uint64_t id);
