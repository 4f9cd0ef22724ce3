/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "store-schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store-internal.h"
#include "base/macros.h"

/* "RcLd" */
#define APPLICATION_ID 0x52634c64

/* Never changed once released, only added to. Names and paths are BLOBs: they are bytes. An entry's
 * row is its key, so that a million of them need no second tree. */
static const char *const steps[] = {
	"CREATE TABLE jobs ("
	"  id INTEGER PRIMARY KEY AUTOINCREMENT," /* not used twice: people have them in notes */
	"  uuid BLOB NOT NULL, uid INTEGER NOT NULL, gid INTEGER NOT NULL, groups BLOB NOT NULL,"
	"  origin BLOB NOT NULL, path BLOB NOT NULL, created INTEGER NOT NULL,"
	"  state INTEGER NOT NULL, resume_state INTEGER NOT NULL, priority INTEGER NOT NULL,"
	"  mount BLOB NOT NULL, staging BLOB NOT NULL, inplace BLOB NOT NULL,"
	"  message BLOB NOT NULL, strategy BLOB NOT NULL,"
	"  staging_fsid INTEGER NOT NULL, staging_ino INTEGER NOT NULL,"
	"  staging_btime INTEGER NOT NULL, staging_type INTEGER NOT NULL,"
	"  names INTEGER NOT NULL, entries INTEGER NOT NULL, bytes INTEGER NOT NULL,"
	"  entries_done INTEGER NOT NULL, bytes_freed INTEGER NOT NULL, errors INTEGER NOT NULL,"
	"  skipped INTEGER NOT NULL, held_until INTEGER NOT NULL, by_time INTEGER NOT NULL,"
	"  started INTEGER NOT NULL, finished INTEGER NOT NULL, attempts INTEGER NOT NULL);"
	"CREATE INDEX jobs_unfinished ON jobs (id) WHERE state < 5;"
	"CREATE INDEX jobs_finished ON jobs (finished) WHERE finished > 0;"
	"CREATE TABLE dirs ("
	"  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, dir INTEGER NOT NULL,"
	"  path BLOB NOT NULL, fsid INTEGER NOT NULL, ino INTEGER NOT NULL,"
	"  btime INTEGER NOT NULL, type INTEGER NOT NULL, PRIMARY KEY (job, dir)) WITHOUT ROWID;"
	"CREATE TABLE entries ("
	"  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, seq INTEGER NOT NULL,"
	"  dir INTEGER NOT NULL, name BLOB NOT NULL, fsid INTEGER NOT NULL, ino INTEGER NOT NULL,"
	"  btime INTEGER NOT NULL, type INTEGER NOT NULL, state INTEGER NOT NULL,"
	"  PRIMARY KEY (job, seq)) WITHOUT ROWID;"
	"CREATE TABLE problems ("
	"  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, seq INTEGER NOT NULL,"
	"  path BLOB NOT NULL, what BLOB NOT NULL, error INTEGER NOT NULL,"
	"  is_error INTEGER NOT NULL, PRIMARY KEY (job, seq)) WITHOUT ROWID;"
	"CREATE TABLE meta (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;",
	/* What lists show of jobs that have finished; see store-history.c. */
	"CREATE TABLE history ("
	"  job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,"
	"  owner INTEGER NOT NULL, outcome INTEGER NOT NULL, line BLOB NOT NULL);" HISTORY_TAKE,
};

int schema_version(void)
{
	return (int)ELEMENTSOF(steps);
}

static int run(sqlite3 *db, const char *sql)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int schema_migrate(sqlite3 *db, int from, int to)
{
	char mark[96];
	int rc = run(db, "BEGIN IMMEDIATE");

	if (rc != SQLITE_OK)
		return rc;
	(void)snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %d",
		       APPLICATION_ID, to);
	for (int i = from; i < to && rc == SQLITE_OK; i++)
		rc = run(db, steps[i]);
	if (rc == SQLITE_OK)
		rc = run(db, mark);
	if (rc == SQLITE_OK)
		rc = run(db, "COMMIT");
	if (rc != SQLITE_OK && !sqlite3_get_autocommit(db))
		(void)run(db, "ROLLBACK"); /* the first error is the one to tell */
	return rc;
}

static int number(sqlite3 *db, const char *sql, int *ret)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc != SQLITE_ROW)
		return store_error(db, rc);
	*ret = sqlite3_column_int(st, 0);
	return 0;
}

/* Whether what is made by an expected statement is there as it was made. */
static int has(sqlite3 *db, const char *name, const char *sql)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, "SELECT 1 FROM sqlite_schema WHERE name = ? AND sql = ?",
				    -1, &st, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(st, 2, sql, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	return rc == SQLITE_ROW ? 1 : store_error(db, rc);
}

/* Compares with a store of the same version made anew in memory. */
static int check_tables(sqlite3 *db, sqlite3 *model, int version, char *ret_words, size_t size)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int r, rc = schema_migrate(model, 0, version);

	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(model,
					"SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE "
					"'sqlite!_%' ESCAPE '!'",
					-1, &st, NULL);
	while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(st, 0);

		r = has(db, name, (const char *)sqlite3_column_text(st, 1));
		if (r == 0)
			(void)snprintf(ret_words, size, "its table %s is missing or another's",
				       name);
		if (r <= 0)
			return r < 0 ? r : -EUCLEAN;
		rc = SQLITE_OK;
	}
	return store_error(model, rc);
}

static int check_model(sqlite3 *db, int version, char *ret_words, size_t size)
{
	sqlite3 *model = NULL;
	int r, rc = sqlite3_open_v2(":memory:", &model, SQLITE_OPEN_READWRITE, NULL);

	if (rc == SQLITE_OK)
		rc = history_open(model);
	r = rc == SQLITE_OK ? check_tables(db, model, version, ret_words, size)
			    : store_error(model, rc);
	(void)sqlite3_close(model); /* no statement is left */
	return r;
}

static int check_pages(sqlite3 *db, char *ret_words, size_t size)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &st, NULL);
	const char *words;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc != SQLITE_ROW)
		return store_error(db, rc);
	words = (const char *)sqlite3_column_text(st, 0);
	if (words && strcmp(words, "ok") == 0)
		return 0;
	/* It says much, in lines, the first of which is a heading. */
	if (words && strncmp(words, "***", 3) == 0 && strchr(words, '\n'))
		words = strchr(words, '\n') + 1;
	(void)snprintf(ret_words, size, "%s", words ? words : "it cannot be checked");
	ret_words[strcspn(ret_words, "\n")] = '\0';
	return -EUCLEAN;
}

int schema_check(sqlite3 *db, int *ret_version, char *ret_words, size_t size)
{
	int application = 0, version = 0, r;

	(void)snprintf(ret_words, size, "it is damaged");
	r = number(db, "PRAGMA application_id", &application);
	if (r < 0)
		return r;
	r = number(db, "PRAGMA user_version", &version);
	if (r < 0)
		return r;
	if (application != APPLICATION_ID || version < 1) {
		(void)snprintf(ret_words, size, "it is another program's database");
		return -EUCLEAN;
	}
	if (version > schema_version()) {
		(void)snprintf(ret_words, size,
			       "a newer reclaimd made it (version %d; this one knows %d)", version,
			       schema_version());
		return -EUCLEAN;
	}
	r = check_model(db, version, ret_words, size);
	if (r < 0)
		return r;
	r = check_pages(db, ret_words, size);
	if (r < 0)
		return r;
	*ret_version = version;
	return 0;
}
