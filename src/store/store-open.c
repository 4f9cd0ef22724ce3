/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store-files.h"
#include "store-internal.h"
#include "store-schema.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/macros.h"

/* No mapping: an I/O error would be a SIGBUS. */
static const char settings_to_check[] = "PRAGMA trusted_schema = OFF;"
					"PRAGMA cell_size_check = ON;"
					"PRAGMA mmap_size = 0;";

#define SETTINGS_TO_READ "PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY;"

static const char settings_to_read[] = SETTINGS_TO_READ;
/* log_limit() bounds the log. */
static const char settings[] = SETTINGS_TO_READ "PRAGMA foreign_keys = ON;"
						/* INSERT OR REPLACE runs delete triggers. */
						"PRAGMA recursive_triggers = ON;"
						"PRAGMA journal_mode = WAL;"
						"PRAGMA synchronous = FULL;";
enum { BUSY_MSEC = 1000 };

/* The log is copied back when it has so many pages: SQLite's own default, or less on a filesystem
 * of which that would be much. So the reserve has room for the log and for what it is copied to. */
enum { PAGE = 4096, LOG_PAGES = 1000, LOG_PAGES_LEAST = 16, LOG_PART = 32, RESERVE_LOGS = 2 };

/* A log of this many times its limit is copied back even if that has to wait for the reader. */
enum { LOG_FORCED = 2 };

static void db_close(struct store *s)
{
	for (size_t i = 0; i < ELEMENTSOF(s->statements); i++)
		statement_finalizep(&s->statements[i].st);
	memset(s->statements, 0, sizeof(s->statements));
	(void)sqlite3_close(s->db); /* what it could not copy from the log stays in it */
	s->db = NULL;
}

static int db_open(struct store *s, const char *name)
{
	char path[64];
	int rc;

	db_close(s);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", s->dir_fd, name);
	rc = store_vfs_open(s->vfs, &s->db, path, s->reads != NULL);
	if (s->db)
		rc = rc == SQLITE_OK ? sqlite3_extended_result_codes(s->db, 1)
				     : sqlite3_extended_errcode(s->db);
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(s->db, BUSY_MSEC);
	/* SQLite opens a database read-only if it cannot be opened for writing. */
	if (rc == SQLITE_OK && !s->reads && sqlite3_db_readonly(s->db, "main") == 1)
		return faccessat(s->dir_fd, name, W_OK, AT_EACCESS) < 0 ? -errno : -EROFS;
	return rc == SQLITE_OK ? history_open(s) : store_error(s->db, rc);
}

/* A database with all its tables, in rollback mode until it is whole. */
static int db_make(struct store *s)
{
	int r = files_make_new(s->dir_fd);

	if (r >= 0)
		r = db_open(s, STORE_FILE_NEW);
	/* Before the first table, so that the file can shrink. */
	if (r >= 0)
		r = statement_exec(s, "PRAGMA auto_vacuum = INCREMENTAL");
	if (r >= 0)
		r = schema_migrate(s, 0, schema_version());
	db_close(s);
	return r < 0 ? r : files_publish_new(s->dir_fd);
}

/* Copies the log into the database after a commit that made it too long. A reader in the middle of
 * a statement keeps SQLite from starting the log again, so under constant reading the log would
 * grow without limit. An error is left to the next commit, because this one is complete. */
static int on_commit(void *userdata, sqlite3 *db, const char *name, int pages)
{
	const struct store *s = userdata;
	int all = 0, copied = 0;

	if ((unsigned)pages < s->log_pages)
		return SQLITE_OK;
	(void)sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, &all, &copied);
	if (copied < all && (unsigned)pages >= LOG_FORCED * s->log_pages)
		(void)sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
	return SQLITE_OK;
}

static int log_limit(struct store *s)
{
	struct statvfs st;
	uint64_t pages = LOG_PAGES;
	char text[128];

	if (fstatvfs(s->dir_fd, &st) < 0)
		return -errno;
	if (st.f_blocks > 0)
		pages = (uint64_t)st.f_blocks * st.f_frsize / PAGE / LOG_PART;
	pages = MIN(MAX(pages, (uint64_t)LOG_PAGES_LEAST), (uint64_t)LOG_PAGES);
	s->reserve_bytes = RESERVE_LOGS * pages * PAGE;
	s->log_pages = (unsigned)pages;
	(void)sqlite3_wal_hook(s->db, on_commit, s);
	(void)snprintf(text, sizeof(text), "PRAGMA journal_size_limit = %u",
		       (unsigned)(2 * pages * PAGE));
	return statement_exec(s, text);
}

/* Whether closing it copies the log into it. */
static int set_copy_at_end(struct store *s, bool on)
{
	return store_error(s->db,
			   sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !on, NULL));
}

/* Whether it can be used is asked before anything is written. */
static int db_load(struct store *s, char *ret_words, size_t size)
{
	int version = 0, r = db_open(s, STORE_FILE);

	/* Closing what turns out damaged must not copy the log into it. */
	if (r >= 0)
		r = set_copy_at_end(s, false);
	if (r >= 0)
		r = statement_exec(s, settings_to_check);
	if (r >= 0)
		r = schema_check(s, &version, ret_words, size);
	if (r >= 0)
		r = statement_exec(s, settings);
	if (r >= 0)
		r = log_limit(s);
	if (r >= 0 && version < schema_version())
		r = schema_migrate(s, version, schema_version());
	return r < 0 ? r : set_copy_at_end(s, true);
}

static int set_aside(struct store *s, const char *dir, const char *words, char **ret_set_aside)
{
	_cleanup_free_ char *shown = escape_name(dir);
	_cleanup_free_ char *text = NULL;
	bool moved = false;
	char name[96];
	int r;

	db_close(s);
	if (!shown)
		return -ENOMEM;
	r = files_name_aside(s->dir_fd, name, sizeof(name));
	if (r < 0)
		return r;
	/* The words come first: once it is moved, they are not found out any more. */
	if (asprintf(
		    &text,
		    "The job store %s/" STORE_FILE " cannot be used: %s. It is kept as %s, and a "
		    "new, empty one takes its place. Nothing has been deleted: the jobs it had are "
		    "not gone on with, and what they had moved to .reclaim stays there. To go back "
		    "to it, stop reclaimd and rename it.",
		    shown, words, name) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	r = files_set_aside(s->dir_fd, name, &moved);
	if (moved) {
		*ret_set_aside = text;
		text = NULL;
	}
	return r;
}

static const char *why(int r)
{
	static const struct {
		int error;
		const char *words;
	} known[] = {
		{ EBUSY, "another process has the job store open" },
		{ EROFS, "the job store cannot be written" },
		{ EACCES, "the job store cannot be written" },
		{ ENOSPC, "there is no space for the job store" },
		{ EIO, "the disk reports errors on the job store" },
		{ ENOMEM, "out of memory" },
		{ EUCLEAN, "the job store that was just made cannot be read back" },
	};

	for (size_t i = 0; i < ELEMENTSOF(known); i++)
		if (known[i].error == -r)
			return known[i].words;
	return "the job store cannot be opened";
}

/* Opens what is there; puts aside what cannot be used, and opens a new one. */
static int open_or_replace(struct store *s, const char *dir, enum store_found found,
			   char **ret_set_aside)
{
	char words[256];
	int r = 0;

	if (found == FOUND_FILE) {
		r = db_load(s, words, sizeof(words));
		/* What cannot be read may look damaged, and must not be put aside for it: it is
		 * read from end to end, and opened once more. */
		if (r == -EUCLEAN) {
			db_close(s);
			r = files_read(s->dir_fd);
			r = r < 0 ? r : db_load(s, words, sizeof(words));
		}
		if (r != -EUCLEAN)
			return r;
	} else {
		(void)snprintf(words, sizeof(words), "%s",
			       found == FOUND_EMPTY
				       ? "it is empty"
				       : "its database is gone and only the log is left");
	}
	if (found != FOUND_NOTHING)
		r = set_aside(s, dir, words, ret_set_aside);
	if (r >= 0)
		r = db_make(s);
	return r < 0 ? r : db_load(s, words, sizeof(words));
}

int store_open(struct store **ret, const char *dir, char **ret_set_aside, const char **ret_why)
{
	struct store *s = calloc(1, sizeof(*s));
	int found, r;

	*ret_set_aside = NULL;
	*ret_why = why(-ENOMEM);
	if (!s)
		return -ENOMEM;
	s->lock_fd = -1;
	s->limits = (struct history_limits){ .jobs = UINT64_MAX, .bytes = UINT64_MAX };
	s->dir_fd = files_open_dir(dir, &s->lock_fd, ret_why);
	found = s->dir_fd < 0 ? s->dir_fd : files_find(s->dir_fd, ret_why);
	if (found < 0) {
		store_close(s);
		return found;
	}
	r = store_vfs_new(&s->vfs) < 0 ? -ENOMEM : open_or_replace(s, dir, found, ret_set_aside);
	/* A database that could not be opened for want of room is as it was. */
	if (r == -ENOSPC && found == FOUND_FILE && !*ret_set_aside) {
		files_reserve_give(s->dir_fd);
		r = open_or_replace(s, dir, found, ret_set_aside);
	}
	if (r < 0) {
		*ret_why = why(r);
		store_close(s);
		return r;
	}
	s->is_short = true;
	store_room_check(s);
	*ret = s;
	return 0;
}

int store_open_reader(struct store **ret, struct store *s)
{
	struct store *reader = calloc(1, sizeof(*reader));
	int r;

	if (!reader)
		return -ENOMEM;
	reader->vfs = s->vfs;
	reader->dir_fd = s->dir_fd;
	reader->reads = s;
	r = db_open(reader, STORE_FILE);
	if (r >= 0)
		r = statement_exec(reader, settings_to_check);
	if (r >= 0)
		r = statement_exec(reader, settings_to_read);
	if (r < 0)
		store_close(reader);
	else
		*ret = reader;
	return r;
}

void store_room_check(struct store *s)
{
	int r;

	if (!s->is_short)
		return;
	r = files_reserve_make(s->dir_fd, s->reserve_bytes);
	s->is_short = r == -ENOSPC || r == -EDQUOT;
	s->unreserved = s->is_short ? 0 : r;
}

bool store_room_make(struct store *s, unsigned attempt)
{
	if (attempt > 1 || s->in_transaction)
		return false;
	if (attempt == 1) {
		files_reserve_give(s->dir_fd);
		s->is_short = true;
	}
	/* What it cannot copy stays in it. */
	(void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	return true;
}

bool store_is_short(const struct store *s)
{
	return s->is_short;
}

int store_unreserved(const struct store *s)
{
	return s->unreserved;
}

struct store *store_close(struct store *s)
{
	if (!s)
		return NULL;
	store_rollback(s);
	db_close(s);
	if (!s->reads) {
		store_vfs_free(s->vfs);
		fd_closep(&s->dir_fd);
		fd_closep(&s->lock_fd);
	}
	free(s);
	return NULL;
}
