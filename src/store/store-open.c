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

/* EXCLUSIVE keeps the log's index in our memory and all other processes out. No mapping: an I/O
 * error would be a SIGBUS. */
static const char settings_to_check[] = "PRAGMA locking_mode = EXCLUSIVE;"
					"PRAGMA trusted_schema = OFF;"
					"PRAGMA cell_size_check = ON;"
					"PRAGMA mmap_size = 0;";

/* The cache, the log (see log_limit), and what is left of the log after a large transaction are
 * bounded. */
static const char settings[] = "PRAGMA cache_size = -2048;"
			       "PRAGMA temp_store = MEMORY;"
			       "PRAGMA foreign_keys = ON;"
			       "PRAGMA journal_mode = WAL;"
			       "PRAGMA synchronous = FULL;";
enum { BUSY_MSEC = 1000 };

/* The log is copied back when it has so many pages: SQLite's own default, or less on a filesystem
 * of which that would be much. So the reserve has room for the log and for what it is copied to. */
enum { PAGE = 4096, LOG_PAGES = 1000, LOG_PAGES_LEAST = 16, LOG_PART = 32, RESERVE_LOGS = 2 };

/* SQLite would resolve /proc/self/fd/N to a path of text and open that, which may by then lead
 * elsewhere. It gets the path it was given. */
static int keep_path(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
	(void)vfs;
	(void)sqlite3_snprintf(size, ret, "%s", name);
	return SQLITE_OK;
}

static int vfs_register(struct store *s)
{
	sqlite3_vfs *system = sqlite3_vfs_find(NULL);
	int rc;

	if (!system)
		return -ENOSYS;
	(void)snprintf(s->vfs_name, sizeof(s->vfs_name), "reclaimd-%p", (void *)s);
	s->vfs = *system;
	s->vfs.pNext = NULL;
	s->vfs.zName = s->vfs_name;
	s->vfs.xFullPathname = keep_path;
	rc = sqlite3_vfs_register(&s->vfs, 0);
	s->vfs_registered = rc == SQLITE_OK;
	return store_error(NULL, rc);
}

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
	/* Without a mutex: one thread at a time has the store. */
	rc = sqlite3_open_v2(path, &s->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX,
			     s->vfs_name);
	if (s->db)
		rc = rc == SQLITE_OK ? sqlite3_extended_result_codes(s->db, 1)
				     : sqlite3_extended_errcode(s->db);
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(s->db, BUSY_MSEC);
	/* Where it cannot be opened for writing SQLite opens it for reading. */
	if (rc == SQLITE_OK && sqlite3_db_readonly(s->db, "main") == 1)
		return faccessat(s->dir_fd, name, W_OK, AT_EACCESS) < 0 ? -errno : -EROFS;
	return rc == SQLITE_OK ? history_open(s) : store_error(s->db, rc);
}

/* A database with all its tables, in rollback mode until it is whole. */
static int db_make(struct store *s)
{
	int r = files_make_new(s->dir_fd);

	if (r >= 0)
		r = db_open(s, STORE_FILE_NEW);
	if (r >= 0)
		r = schema_migrate(s, 0, schema_version());
	db_close(s);
	return r < 0 ? r : files_publish_new(s->dir_fd);
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
	(void)snprintf(text, sizeof(text),
		       "PRAGMA wal_autocheckpoint = %u; PRAGMA journal_size_limit = %u",
		       (unsigned)pages, (unsigned)(2 * pages * PAGE));
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
	s->dir_fd = files_open_dir(dir, &s->lock_fd, ret_why);
	found = s->dir_fd < 0 ? s->dir_fd : files_find(s->dir_fd, ret_why);
	if (found < 0) {
		store_close(s);
		return found;
	}
	r = vfs_register(s) < 0 ? -ENOMEM : open_or_replace(s, dir, found, ret_set_aside);
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
	if (s->vfs_registered)
		(void)sqlite3_vfs_unregister(&s->vfs);
	fd_closep(&s->dir_fd);
	fd_closep(&s->lock_fd);
	free(s);
	return NULL;
}
