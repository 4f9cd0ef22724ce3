/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "store-schema.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "store-internal.h"
#include "base/macros.h"

/* "RcLd" */
#define APPLICATION_ID 0x52634c64

/* The steps from an empty database to today's. A released step never changes; later versions append
 * steps. Names and paths are BLOBs, because they are bytes in no particular encoding. The rows of
 * entries are their own keys, so that a million of them need no second tree. */
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
	"  started INTEGER NOT NULL, finished INTEGER NOT NULL, attempts INTEGER NOT NULL,"
	"  kind INTEGER NOT NULL, host BLOB NOT NULL, others_units INTEGER NOT NULL,"
	"  others_entries INTEGER NOT NULL, others_bytes INTEGER NOT NULL);"
	"CREATE INDEX jobs_unfinished ON jobs (id) WHERE state < 5;"
	"CREATE INDEX jobs_finished ON jobs (finished) WHERE finished > 0;"
	"CREATE INDEX jobs_returned ON jobs (id) WHERE "
	"  substr(origin, 1, 6) = CAST('spool:' AS BLOB) AND (finished = 0 OR state IN (8, 9));"
	"CREATE TABLE dirs ("
	"  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, dir INTEGER NOT NULL,"
	"  path BLOB NOT NULL, fsid INTEGER NOT NULL, ino INTEGER NOT NULL,"
	"  btime INTEGER NOT NULL, type INTEGER NOT NULL, PRIMARY KEY (job, dir)) WITHOUT ROWID;"
	"CREATE TABLE entries ("
	"  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, seq INTEGER NOT NULL,"
	"  dir INTEGER NOT NULL, name BLOB NOT NULL, fsid INTEGER NOT NULL, ino INTEGER NOT NULL,"
	"  btime INTEGER NOT NULL, type INTEGER NOT NULL, state INTEGER NOT NULL,"
	"  PRIMARY KEY (job, seq)) WITHOUT ROWID;"
	"CREATE INDEX entries_kept ON entries (job, seq) WHERE state = 3;"
	"CREATE TABLE problems ("
	"  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, seq INTEGER NOT NULL,"
	"  path BLOB NOT NULL, what BLOB NOT NULL, error INTEGER NOT NULL,"
	"  is_error INTEGER NOT NULL, PRIMARY KEY (job, seq)) WITHOUT ROWID;"
	"CREATE TABLE meta (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
	/* The fields of finished jobs that lists show, and the size of all rows of the job; see
	 * store-history.c. There is an index for each filter of a list. An account is a user, or
	 * what was put back into spools for a user. */
	"CREATE TABLE history ("
	"  job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,"
	"  owner INTEGER NOT NULL, outcome INTEGER NOT NULL, line BLOB NOT NULL,"
	"  account INTEGER NOT NULL, finished INTEGER NOT NULL, size INTEGER NOT NULL);"
	"CREATE INDEX history_owner ON history (owner, outcome);"
	"CREATE INDEX history_outcome ON history (outcome);"
	"CREATE INDEX history_oldest ON history (account, finished);"
	/* The number and the size of the finished jobs of each account. */
	"CREATE TABLE accounts (account INTEGER PRIMARY KEY, jobs INTEGER NOT NULL,"
	"  size INTEGER NOT NULL);"
	"CREATE TRIGGER history_added AFTER INSERT ON history BEGIN "
	"  INSERT INTO accounts VALUES (new.account, 1, new.size) ON CONFLICT (account) "
	"  DO UPDATE SET (jobs, size) = (jobs + 1, size + new.size); END;"
	"CREATE TRIGGER history_removed AFTER DELETE ON history BEGIN "
	"  UPDATE accounts SET (jobs, size) = (jobs - 1, size - old.size) "
	"  WHERE account = old.account; "
	"  DELETE FROM accounts WHERE account = old.account AND jobs = 0; END;",
};

int schema_version(void)
{
	return (int)ELEMENTSOF(steps);
}

int schema_migrate(struct store *s, int from, int to)
{
	char mark[128];
	int r = statement_exec(s, "BEGIN IMMEDIATE");

	if (r < 0)
		return r;
	for (int i = from; i < to && r == 0; i++)
		r = statement_exec(s, steps[i]);
	(void)snprintf(mark, sizeof(mark),
		       "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
		       APPLICATION_ID, to);
	if (r == 0)
		r = statement_exec(s, mark);
	if (r < 0 && !sqlite3_get_autocommit(s->db))
		(void)statement_exec(s, "ROLLBACK"); /* the first error is the one to tell */
	return r;
}

/* Compares with a store of the same version made anew in memory: what is made by a statement there
 * has to be here as it was made. */
static int check_tables(struct store *s, struct store *model, int version, char *ret_words,
			size_t size)
{
	static const struct column columns[] = { COLUMN_AT(0, TEXT),
						 COLUMN_AT(sizeof(char *), TEXT) };
	_cleanup_statement_ sqlite3_stmt *tables = NULL;
	const char *table[2]; /* its name and its statement */
	int r = history_open(model);

	if (r >= 0)
		r = schema_migrate(model, 0, version);
	if (r >= 0)
		r = statement_query(model, &tables,
				    "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE "
				    "'sqlite!_%' ESCAPE '!'",
				    NULL, 0);
	while (r >= 0 && (r = statement_next(model, tables, COLUMNS(columns), table)) > 0) {
		_cleanup_statement_ sqlite3_stmt *st = NULL;

		r = statement_query(s, &st,
				    "SELECT 1 FROM sqlite_schema WHERE name = CAST(? AS TEXT) "
				    "AND sql = CAST(? AS TEXT)",
				    PARAMETERS(TEXT(table[0]), TEXT(table[1])));
		if (r >= 0)
			r = statement_next(s, st, NULL, 0, NULL);
		if (r == 0) {
			(void)snprintf(ret_words, size, "its table %s is missing or another's",
				       table[0]);
			return -EUCLEAN;
		}
	}
	return r;
}

static int check_pages(struct store *s, char *ret_words, size_t size)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	int r = statement_query(s, &st, "PRAGMA quick_check(1)", NULL, 0);
	const char *words;

	if (r >= 0)
		r = statement_next(s, st, COLUMNS(column_text), &words);
	if (r <= 0 || strcmp(words, "ok") == 0)
		return MIN(r, 0);
	/* It says much, in lines, the first of which is a heading. */
	if (strncmp(words, "***", 3) == 0 && strchr(words, '\n'))
		words = strchr(words, '\n') + 1;
	(void)snprintf(ret_words, size, "%s", words);
	ret_words[strcspn(ret_words, "\n")] = '\0';
	return -EUCLEAN;
}

int schema_check(struct store *s, int *ret_version, char *ret_words, size_t size)
{
	struct store model = { .dir_fd = -1, .lock_fd = -1 };
	uint64_t application = 0, version = 0;
	int r;

	(void)snprintf(ret_words, size, "it is damaged");
	r = statement_number(s, "PRAGMA application_id", NULL, 0, &application);
	if (r >= 0)
		r = statement_number(s, "PRAGMA user_version", NULL, 0, &version);
	if (r < 0)
		return r;
	if (application != APPLICATION_ID || version < 1 || version > INT_MAX) {
		(void)snprintf(ret_words, size, "it is another program's database");
		return -EUCLEAN;
	}
	if (version > ELEMENTSOF(steps)) {
		(void)snprintf(ret_words, size,
			       "a newer reclaimd made it (version %d; this one knows %d)",
			       (int)version, schema_version());
		return -EUCLEAN;
	}
	*ret_version = (int)version;
	r = store_error(NULL, sqlite3_open_v2(":memory:", &model.db, SQLITE_OPEN_READWRITE, NULL));
	if (r >= 0)
		r = check_tables(s, &model, *ret_version, ret_words, size);
	(void)sqlite3_close(model.db); /* no statement is left */
	return r < 0 ? r : check_pages(s, ret_words, size);
}
