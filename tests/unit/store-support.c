/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "store-support.h"

#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support.h"

void state_make(struct state_dir *d)
{
	scratch_make(d->path, sizeof(d->path));
	ck_assert_int_eq(chmod(d->path, 0700), 0);
}

void state_remove(struct state_dir *d)
{
	scratch_remove(d->path);
}

const char *state_file(const struct state_dir *d, const char *name, char *buf)
{
	(void)snprintf(buf, 256, "%s/%s", d->path, name);
	return buf;
}

size_t state_count(const struct state_dir *d, const char *prefix)
{
	DIR *dir = opendir(d->path);
	struct dirent *e;
	size_t n = 0;

	ck_assert_ptr_nonnull(dir);
	while ((e = readdir(dir)))
		n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
	(void)closedir(dir);
	return n;
}

struct store *state_open(const struct state_dir *d)
{
	const char *why = "";
	struct store *s = NULL;
	char *aside = NULL;
	int r = store_open(&s, d->path, &aside, &why);

	ck_assert_msg(r == 0, "%d %s", r, why);
	ck_assert_msg(!aside, "%s", aside);
	return s;
}

struct store *state_open_aside(const struct state_dir *d, const char *words)
{
	const char *why = "";
	struct store *s = NULL;
	char *aside = NULL;
	int r = store_open(&s, d->path, &aside, &why);

	ck_assert_msg(r == 0, "%d %s", r, why);
	ck_assert_ptr_nonnull(aside);
	ck_assert_msg(strstr(aside, words) && strstr(aside, d->path) &&
			      strstr(aside, "Nothing has been deleted"),
		      "%s", aside);
	free(aside);
	return s;
}

int state_change(const struct state_dir *d, const char *sql)
{
	char path[256];
	sqlite3 *db = NULL;
	int n;

	ck_assert_int_eq(sqlite3_open(state_file(d, "reclaimd.db", path), &db), SQLITE_OK);
	ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", sql,
		      sqlite3_errmsg(db));
	n = sqlite3_changes(db);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
	return n;
}

int job_make(struct store *s, const char *path, unsigned int n_entries, uint64_t *ret_id)
{
	struct job_record job = { .path = path, .origin = "submit", .names = n_entries };
	int r = store_job_add(s, &job, ret_id);

	for (unsigned int i = 1; i <= n_entries && r == 0; i++) {
		char name[32];
		struct entry_record e = { .seq = i, .dir = 1, .name = name, .id = { .ino = i } };

		(void)snprintf(name, sizeof(name), "entry-%u", i);
		r = store_entry_add(s, *ret_id, &e);
	}
	return r;
}

static int count_job(const struct job_record *r, void *userdata)
{
	(void)r;
	++*(uint64_t *)userdata;
	return 0;
}

uint64_t jobs_count(struct store *s)
{
	struct job_filter unfinished = { .states = (1U << JOB_DONE) - 1 }, finished = { 0 };
	uint64_t n = 0;

	ck_assert_int_eq(store_jobs_each(s, &unfinished, count_job, &n), 0);
	ck_assert_int_eq(store_jobs_each(s, &finished, count_job, &n), 0);
	return n;
}

static int count_entry(const struct entry_record *e, void *userdata)
{
	(void)e;
	++*(uint64_t *)userdata;
	return 0;
}

uint64_t entries_count(struct store *s, uint64_t job)
{
	uint64_t n = 0;

	ck_assert_int_eq(store_entries_each(s, job, 0, 0, count_entry, &n), 0);
	return n;
}
