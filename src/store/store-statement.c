/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "store-internal.h"
#include "base/macros.h"

int store_error(sqlite3 *db, int rc)
{
	/* What the system said where SQLite only knows that it said something. */
	int system = db ? sqlite3_system_errno(db) : 0;

	if (system == EDQUOT)
		system = ENOSPC;
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
		return rc == SQLITE_IOERR_NOMEM              ? -ENOMEM
		       : system == ENOSPC || system == EROFS ? -system
							     : -EIO;
	case SQLITE_CANTOPEN:
		return system > 0 ? -system : -EIO;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CONSTRAINT:
		return rc == SQLITE_CONSTRAINT_FOREIGNKEY ? -ENOENT
		       : rc == SQLITE_CONSTRAINT_PRIMARYKEY || rc == SQLITE_CONSTRAINT_UNIQUE ||
				       rc == SQLITE_CONSTRAINT_ROWID
			       ? -EEXIST
			       : -EINVAL;
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

const struct column column_number[1] = { COLUMN_AT(0, U64) };
const struct column column_text[1] = { COLUMN_AT(0, TEXT) };

/* Returns a result code of SQLite. */
static int bind(sqlite3_stmt *st, int at, const struct column *c, const void *record)
{
	const char *member = (const char *)record + c->offset;
	const void *bytes = NULL;
	uint64_t v = 0;

	switch (c->kind) {
	case COLUMN_U64:
		v = *(const uint64_t *)member;
		break;
	case COLUMN_U32:
		v = *(const uint32_t *)member;
		if (c->below > 0 && v >= c->below)
			return SQLITE_RANGE;
		break;
	case COLUMN_INT:
		v = (uint64_t)(int64_t) * (const int *)member;
		break;
	case COLUMN_BOOL:
		v = *(const bool *)member;
		break;
	case COLUMN_TEXT:
		bytes = *(const char *const *)member;
		v = bytes ? strlen(bytes) : 0;
		break;
	case COLUMN_UUID:
		bytes = member;
		v = 16;
		break;
	case COLUMN_IDS:
		bytes = *(const gid_t *const *)member;
		v = *(const size_t *)(member + sizeof(gid_t *)) * sizeof(gid_t);
		break;
	}
	if (c->kind < COLUMN_TEXT)
		return sqlite3_bind_int64(st, at, (sqlite3_int64)v);
	/* A null pointer would bind NULL. */
	return sqlite3_bind_blob64(st, at, bytes ? bytes : "", v, SQLITE_STATIC);
}

/* Returns a result code of SQLite. */
static int bind_all(sqlite3_stmt *st, const struct parameters *v, size_t n)
{
	int at = 0, rc = SQLITE_OK;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].n && rc == SQLITE_OK; k++)
			rc = bind(st, ++at, &v[i].columns[k], v[i].record);
	assert(rc != SQLITE_OK || at == sqlite3_bind_parameter_count(st));
	return rc;
}

int statement_exec(struct store *s, const char *sql)
{
	return store_error(s->db, sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

int statement_run(struct store *s, const char *sql, const struct parameters *parameters, size_t n)
{
	sqlite3_stmt **st;
	size_t i = 0;
	int rc = SQLITE_OK, r = transaction_lost(s);

	if (r < 0)
		return r;
	while (s->statements[i].sql && s->statements[i].sql != sql)
		i++;
	assert(i < STATEMENTS_MOST - 1);
	s->statements[i].sql = sql;
	st = &s->statements[i].st;
	if (!*st)
		rc = sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, st, NULL);
	if (rc == SQLITE_OK)
		rc = bind_all(*st, parameters, n);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(*st);
	r = result(s, rc);
	/* The step has said it already. */
	(void)sqlite3_reset(*st);
	return r;
}

int statement_change(struct store *s, const char *sql, const struct parameters *parameters,
		     size_t n)
{
	int r = statement_run(s, sql, parameters, n);

	return r < 0 ? r : sqlite3_changes(s->db) > 0 ? 0 : -ENOENT;
}

int statement_query(struct store *s, sqlite3_stmt **ret, const char *sql,
		    const struct parameters *parameters, size_t n)
{
	int rc = sqlite3_prepare_v2(s->db, sql, -1, ret, NULL);

	if (rc == SQLITE_OK)
		rc = bind_all(*ret, parameters, n);
	return result(s, rc);
}

/* Returns 0 or a negative errno. */
static int read_number(sqlite3_stmt *st, int at, const struct column *c, char *member)
{
	/* Of a connection that one thread uses at a time, the value may be asked directly: a list
	 * has a hundred thousand. */
	sqlite3_value *value = sqlite3_column_value(st, at);
	uint64_t v = (uint64_t)sqlite3_value_int64(value);

	if (sqlite3_value_type(value) != SQLITE_INTEGER ||
	    (c->kind == COLUMN_U32 && (v > UINT32_MAX || (c->below > 0 && v >= c->below))) ||
	    (c->kind == COLUMN_BOOL && v > 1))
		return -EUCLEAN;
	if (c->kind == COLUMN_U64)
		*(uint64_t *)member = v;
	else if (c->kind == COLUMN_U32)
		*(uint32_t *)member = (uint32_t)v;
	else if (c->kind == COLUMN_INT)
		*(int *)member = (int)(int64_t)v;
	else
		*(bool *)member = v == 1;
	return 0;
}

/* Returns 0 or a negative errno. */
static int read_bytes(sqlite3_stmt *st, int at, const struct column *c, char *member)
{
	/* Bytes of a database in UTF-8 become text as they are, with a NUL behind them, which may
	 * take memory. */
	const void *v = c->kind == COLUMN_TEXT ? (const void *)sqlite3_column_text(st, at)
					       : sqlite3_column_blob(st, at);
	size_t len = (size_t)sqlite3_column_bytes(st, at);

	if (!v && sqlite3_errcode(sqlite3_db_handle(st)) == SQLITE_NOMEM)
		return -ENOMEM;
	if (c->kind == COLUMN_TEXT) {
		*(const char **)member = v;
		/* A name cut short at a NUL would be another one's. */
		return v && strlen(v) == len ? 0 : -EUCLEAN;
	}
	if (c->kind == COLUMN_UUID) {
		if (!v || len != 16)
			return -EUCLEAN;
		memcpy(member, v, len);
		return 0;
	}
	*(const gid_t **)member = v;
	*(size_t *)(member + sizeof(gid_t *)) = len / sizeof(gid_t);
	return len % sizeof(gid_t) == 0 ? 0 : -EUCLEAN;
}

int statement_number(struct store *s, const char *sql, const struct parameters *parameters,
		     size_t n, uint64_t *ret)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int r = statement_query(s, &st, sql, parameters, n);

	return r < 0 ? r : statement_next(s, st, COLUMNS(column_number), ret);
}

int statement_next(struct store *s, sqlite3_stmt *st, const struct column *columns, size_t n,
		   void *record)
{
	int r = 0, rc = sqlite3_step(st);

	if (rc != SQLITE_ROW)
		return result(s, rc);
	for (size_t i = 0; i < n && r == 0; i++)
		r = (columns[i].kind < COLUMN_TEXT ? read_number : read_bytes)(
			st, (int)i, &columns[i], (char *)record + columns[i].offset);
	return r < 0 ? r : 1;
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
	r = statement_run(s, "BEGIN IMMEDIATE", NULL, 0);
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
	r = statement_run(s, "COMMIT", NULL, 0);
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
		(void)statement_run(s, "ROLLBACK", NULL, 0);
	s->in_transaction = false;
	s->lost = 0;
}

int store_set_durable(struct store *s, bool durable)
{
	int r;

	if (s->in_transaction)
		return -EBUSY;
	if (s->lazy == !durable)
		return 0;
	/* The log is written one way, and flushed as a whole. */
	r = statement_exec(s,
			   durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
	if (r >= 0)
		s->lazy = !durable;
	return r;
}

int store_part(struct store *s, int (*work)(struct store *s, void *userdata), void *userdata)
{
	int e = 0, r = statement_run(s, "SAVEPOINT work", NULL, 0);

	if (r < 0)
		return r;
	r = work(s, userdata);
	if (r < 0)
		e = statement_run(s, "ROLLBACK TO work", NULL, 0);
	if (e >= 0)
		e = statement_run(s, "RELEASE work", NULL, 0);
	return r < 0 || e >= 0 ? r : e;
}
