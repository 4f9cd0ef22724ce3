/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "store-internal.h"
#include "base/macros.h"

/* What the system said where SQLite only knows that it said something. */
static int system_error(sqlite3 *db)
{
	int e = db ? sqlite3_system_errno(db) : 0;

	return e == EDQUOT ? -ENOSPC : -e;
}

static int io_error(sqlite3 *db, int rc)
{
	int e = system_error(db);

	if (rc == SQLITE_IOERR_NOMEM)
		return -ENOMEM;
	return e == -ENOSPC || e == -EROFS ? e : -EIO;
}

static int constraint_error(int rc)
{
	switch (rc) {
	case SQLITE_CONSTRAINT_PRIMARYKEY:
	case SQLITE_CONSTRAINT_UNIQUE:
	case SQLITE_CONSTRAINT_ROWID:
		return -EEXIST;
	case SQLITE_CONSTRAINT_FOREIGNKEY:
		return -ENOENT;
	default:
		return -EINVAL;
	}
}

int store_error(sqlite3 *db, int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_IOERR:
		return io_error(db, rc);
	case SQLITE_CANTOPEN:
		return system_error(db) < 0 ? system_error(db) : -EIO;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CONSTRAINT:
		return constraint_error(rc);
	case SQLITE_TOOBIG:
		return -E2BIG;
	case SQLITE_ABORT:
		return -ECANCELED;
	case SQLITE_MISUSE:
	case SQLITE_RANGE:
		return -EINVAL;
	default: /* SQLITE_CORRUPT, _NOTADB, and _ERROR: a table is not as it was made */
		return -EUCLEAN;
	}
}

/* Why there is no transaction any more, or 0. */
static int transaction_lost(const struct store *s)
{
	if (!s->in_transaction || !sqlite3_get_autocommit(s->db))
		return 0;
	return s->lost < 0 ? s->lost : -ECANCELED;
}

static int result(struct store *s, int rc)
{
	int r = store_error(s->db, rc);

	/* After some errors SQLite has undone the whole transaction, not only the statement. */
	if (r < 0 && s->in_transaction && s->lost == 0 && sqlite3_get_autocommit(s->db))
		s->lost = r;
	return r;
}

struct parameter parameter_text(const char *v)
{
	return BYTES(v, v ? strlen(v) : 0);
}

/* Returns a result code of SQLite. */
static int bind(sqlite3_stmt *st, const struct parameter *v, size_t n)
{
	int at = 0, rc = SQLITE_OK;

	for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
		const struct lasting_identity *id = v[i].p;

		switch (v[i].kind) {
		case PARAMETER_NUMBER:
			rc = sqlite3_bind_int64(st, ++at, (sqlite3_int64)v[i].number);
			break;
		case PARAMETER_BYTES:
			/* A null pointer would bind NULL. */
			rc = sqlite3_bind_blob64(st, ++at, v[i].p ? v[i].p : "", v[i].number,
						 SQLITE_STATIC);
			break;
		case PARAMETER_IDENTITY: {
			const uint64_t columns[] = { id->fsid, id->ino, (uint64_t)id->btime_nsec,
						     id->type };

			for (size_t k = 0; k < ELEMENTSOF(columns) && rc == SQLITE_OK; k++)
				rc = sqlite3_bind_int64(st, ++at, (sqlite3_int64)columns[k]);
			break;
		}
		}
	}
	assert(rc != SQLITE_OK || at == sqlite3_bind_parameter_count(st));
	return rc;
}

int statement_run(struct store *s, enum statement which, const char *sql,
		  const struct parameter *parameters, size_t n)
{
	sqlite3_stmt **st = &s->statements[which];
	int rc = SQLITE_OK, r = transaction_lost(s);

	if (r < 0)
		return r;
	if (!*st)
		rc = sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, st, NULL);
	if (rc == SQLITE_OK)
		rc = bind(*st, parameters, n);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(*st);
	r = result(s, rc);
	/* The step has said it already. */
	(void)sqlite3_reset(*st);
	return r;
}

int statement_change(struct store *s, enum statement which, const char *sql,
		     const struct parameter *parameters, size_t n)
{
	int r = statement_run(s, which, sql, parameters, n);

	return r < 0 ? r : sqlite3_changes(s->db) > 0 ? 0 : -ENOENT;
}

int statement_query(struct store *s, sqlite3_stmt **ret, const char *sql,
		    const struct parameter *parameters, size_t n)
{
	int rc = sqlite3_prepare_v2(s->db, sql, -1, ret, NULL);

	if (rc == SQLITE_OK)
		rc = bind(*ret, parameters, n);
	return result(s, rc);
}

int statement_next(struct store *s, sqlite3_stmt *st)
{
	int rc = sqlite3_step(st);

	return rc == SQLITE_ROW ? 1 : result(s, rc);
}

void statement_finalizep(sqlite3_stmt **st)
{
	(void)sqlite3_finalize(*st);
}

int store_begin(struct store *s)
{
	int r;

	if (s->in_transaction)
		return -EBUSY;
	r = statement_run(s, STATEMENT_BEGIN, "BEGIN IMMEDIATE", NULL, 0);
	if (r < 0)
		return r;
	s->in_transaction = true;
	s->lost = 0;
	return 0;
}

int store_commit(struct store *s)
{
	int r;

	if (!s->in_transaction)
		return -EINVAL;
	r = statement_run(s, STATEMENT_COMMIT, "COMMIT", NULL, 0);
	if (r < 0) {
		store_rollback(s);
		return r;
	}
	s->in_transaction = false;
	return 0;
}

void store_rollback(struct store *s)
{
	/* It cannot fail but where there is nothing left to undo. */
	if (s->in_transaction && !sqlite3_get_autocommit(s->db))
		(void)statement_run(s, STATEMENT_ROLLBACK, "ROLLBACK", NULL, 0);
	s->in_transaction = false;
	s->lost = 0;
}

int store_savepoint(struct store *s)
{
	return statement_run(s, STATEMENT_SAVEPOINT, "SAVEPOINT work", NULL, 0);
}

int store_savepoint_keep(struct store *s)
{
	return statement_run(s, STATEMENT_RELEASE, "RELEASE work", NULL, 0);
}

int store_savepoint_undo(struct store *s)
{
	int r = statement_run(s, STATEMENT_UNDO, "ROLLBACK TO work", NULL, 0);

	return r < 0 ? r : store_savepoint_keep(s);
}

void reader_fail(struct row_reader *r, int error)
{
	if (r->error == 0)
		r->error = error;
}

uint64_t read_u64(struct row_reader *r)
{
	/* Of a connection that one thread uses at a time, the value may be asked directly: a list
	 * has a hundred thousand. */
	sqlite3_value *v = sqlite3_column_value(r->st, r->at++);

	if (sqlite3_value_type(v) != SQLITE_INTEGER)
		reader_fail(r, -EUCLEAN);
	return (uint64_t)sqlite3_value_int64(v);
}

uint32_t read_u32(struct row_reader *r)
{
	uint64_t v = read_u64(r);

	if (v > UINT32_MAX)
		reader_fail(r, -EUCLEAN);
	return (uint32_t)v;
}

unsigned int read_enum(struct row_reader *r, unsigned int n)
{
	uint32_t v = read_u32(r);

	if (v >= n)
		reader_fail(r, -EUCLEAN);
	return v;
}

const char *read_string(struct row_reader *r)
{
	/* Bytes of a database in UTF-8 become text as they are, with a NUL behind them, which may
	 * take memory. */
	const char *v = (const char *)sqlite3_column_text(r->st, r->at);
	size_t len = (size_t)sqlite3_column_bytes(r->st, r->at++);

	/* A name cut short at a NUL would be another one's. */
	if (!v && sqlite3_errcode(sqlite3_db_handle(r->st)) == SQLITE_NOMEM)
		reader_fail(r, -ENOMEM);
	else if (!v || strlen(v) != len)
		reader_fail(r, -EUCLEAN);
	return v ? v : "";
}

const void *read_bytes(struct row_reader *r, size_t *ret_len)
{
	const void *v = sqlite3_column_blob(r->st, r->at);

	*ret_len = (size_t)sqlite3_column_bytes(r->st, r->at++);
	return v;
}

struct lasting_identity read_identity(struct row_reader *r)
{
	return (struct lasting_identity){
		.fsid = read_u64(r),
		.ino = read_u64(r),
		.btime_nsec = (int64_t)read_u64(r),
		.type = read_u32(r),
	};
}
