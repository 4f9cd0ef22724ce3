/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rows that hold what was never written there, tables that have gone while the store is open,
 * values that do not fit, and transactions that SQLite has ended by itself: each is an error with
 * the right number, half of a row is never handed out, and nothing else is touched. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store-support.h"
#include "store/store-internal.h"
#include "support.h"
#include "base/macros.h"

/* Two jobs, each with everything a job can have; and a setting. */
static struct store *fill(struct state_dir *d)
{
	const struct lasting_identity id = { .ino = 1 };
	const struct problem_record p = { .path = "/a/b", .what = "cannot be removed" };
	struct store *s;
	uint64_t job;

	state_make(d);
	s = state_open(d);
	for (uint64_t i = 1; i <= 2; i++) {
		ck_assert_int_eq(job_make(s, "/a", 1, &job), 0);
		ck_assert_uint_eq(job, i);
		ck_assert_int_eq(store_dir_add(s, job, 1, "/a", &id), 0);
		ck_assert_int_eq(store_problem_add(s, job, &p), 0);
	}
	ck_assert_int_eq(store_meta_set(s, "paused", "yes"), 0);
	return s;
}

/* ---- reading: how many were handed out ---------------------------------------------------- */

static int see_job(const struct job_record *r, void *userdata)
{
	(void)r;
	++*(unsigned int *)userdata;
	return 0;
}

static int see_dir(uint64_t dir, const char *path, const struct lasting_identity *id,
		   void *userdata)
{
	(void)dir;
	(void)path;
	(void)id;
	++*(unsigned int *)userdata;
	return 0;
}

static int see_entry(const struct entry_record *e, void *userdata)
{
	(void)e;
	++*(unsigned int *)userdata;
	return 0;
}

static int see_problem(const struct problem_record *p, void *userdata)
{
	(void)p;
	++*(unsigned int *)userdata;
	return 0;
}

static int get_job(struct store *s, uint64_t job, unsigned int *seen)
{
	return store_job_get(s, job, see_job, seen);
}

static int each_job(struct store *s, uint64_t job, unsigned int *seen)
{
	struct job_filter f = { .states = (1U << JOB_DONE) - 1, .since_id = job, .limit = 1 };

	return store_jobs_each(s, &f, see_job, seen);
}

static int each_dir(struct store *s, uint64_t job, unsigned int *seen)
{
	return store_dirs_each(s, job, 0, UINT64_MAX, see_dir, seen);
}

static int each_entry(struct store *s, uint64_t job, unsigned int *seen)
{
	return store_entries_each(s, job, 0, 0, see_entry, seen);
}

static int each_problem(struct store *s, uint64_t job, unsigned int *seen)
{
	return store_problems_each(s, job, 0, 0, see_problem, seen);
}

static int get_meta(struct store *s, uint64_t job, unsigned int *seen)
{
	char *value = NULL;
	int r = store_meta_get(s, job == 1 ? "paused" : "nothing", &value);

	*seen += value ? 1 : 0;
	free(value);
	return r;
}

typedef int (*read_t)(struct store *s, uint64_t job, unsigned int *seen);

/* ---- damaged rows ------------------------------------------------------------------------- */

/* Of the row with `where`, column by column; ends with NULL. */
static void damage_each(const char *table, const char *where, const char *const *columns,
			const char *value, read_t read, int otherwise)
{
	for (; *columns; columns++) {
		unsigned int seen = 0;
		struct state_dir d;
		struct store *s;
		char sql[256];

		store_close(fill(&d));
		(void)snprintf(sql, sizeof(sql), "UPDATE %s SET %s = %s WHERE %s", table, *columns,
			       value, where);
		ck_assert_int_eq(state_change(&d, sql), 1);
		s = state_open(&d);
		ck_assert_msg(read(s, 1, &seen) == -EUCLEAN, "%s", sql);
		ck_assert_msg(seen == 0, "%s", sql);
		/* The others are there as ever. */
		ck_assert_msg(read(s, 2, &seen) == otherwise, "%s", sql);
		ck_assert_msg(seen == (otherwise == 0), "%s", sql);
		store_close(s);
		state_remove(&d);
	}
}

START_TEST(test_fault_05_a_damaged_row_is_not_handed_out)
{
	/* The index by which each_job goes has no row whose state is no state. */
	static const char *const numbers[] = { "state",    "uid",        "created",
					       "priority", "names",      "entries_done",
					       "errors",   "held_until", "staging_ino",
					       "attempts", "kind",       "others_units",
					       NULL };
	static const char *const narrow[] = { "state",        "uid",      "gid",
					      "resume_state", "priority", "staging_type",
					      "attempts",     "kind",     NULL };
	static const char *const strings[] = { "origin",  "path",    "mount",    "staging",
					       "inplace", "message", "strategy", NULL };
	static const char *const shapes[] = { "uuid", "groups", NULL };
	static const read_t reads[] = { get_job, each_job };

	for (size_t i = 0; i < ELEMENTSOF(reads); i++) {
		damage_each("jobs", "id = 1", numbers + i, "'x'", reads[i], 0);
		damage_each("jobs", "id = 1", narrow + i, "4294967296", reads[i], 0);
		damage_each("jobs", "id = 1", narrow + i, "-1", reads[i], 0);
		damage_each("jobs", "id = 1", strings, "x'610062'", reads[i], 0);
		damage_each("jobs", "id = 1", shapes, "x'616263'", reads[i], 0);
	}
}
END_TEST

START_TEST(test_fault_05_nor_is_one_of_what_belongs_to_a_job)
{
	static const char *const dirs[] = { "fsid", "ino", "btime", "type", NULL };
	static const char *const entries[] = { "dir", "ino", "type", "state", NULL };
	static const char *const problems[] = { "error", "is_error", NULL };
	static const char *const path[] = { "path", NULL }, *const name[] = { "name", NULL },
				 *const what[] = { "path", "what", NULL },
				 *const value[] = { "value", NULL },
				 *const state[] = { "state", NULL },
				 *const is_error[] = { "is_error", NULL };

	damage_each("dirs", "job = 1", dirs, "'x'", each_dir, 0);
	damage_each("dirs", "job = 1", path, "x'610062'", each_dir, 0);
	damage_each("entries", "job = 1", entries, "'x'", each_entry, 0);
	damage_each("entries", "job = 1", state, "6", each_entry, 0);
	damage_each("entries", "job = 1", name, "x'610062'", each_entry, 0);
	damage_each("problems", "job = 1", problems, "'x'", each_problem, 0);
	damage_each("problems", "job = 1", is_error, "2", each_problem, 0);
	damage_each("problems", "job = 1", what, "x'610062'", each_problem, 0);
	damage_each("meta", "true", value, "x'610062'", get_meta, -ENOENT);
}
END_TEST

/* ---- everything that a store can be asked for --------------------------------------------- */

static int add_job(struct store *s, uint64_t job, unsigned int *seen)
{
	const struct job_record r = { .path = "/new", .origin = "submit" };
	uint64_t id = 0;
	int e = store_job_add(s, &r, &id);

	(void)job;
	*seen += id > 0;
	return e;
}

static int update_job(struct store *s, uint64_t job, unsigned int *seen)
{
	const struct job_record r = { .id = job, .message = "changed" };

	(void)seen;
	return store_job_update(s, &r);
}

static int remove_job(struct store *s, uint64_t job, unsigned int *seen)
{
	(void)seen;
	return store_job_remove(s, job);
}

static int add_dir(struct store *s, uint64_t job, unsigned int *seen)
{
	const struct lasting_identity id = { .ino = 1 };

	(void)seen;
	return store_dir_add(s, job, 7, "/new", &id);
}

static int add_entry(struct store *s, uint64_t job, unsigned int *seen)
{
	const struct entry_record e = { .seq = 7, .dir = 1, .name = "new" };

	(void)seen;
	return store_entry_add(s, job, &e);
}

static int set_entries(struct store *s, uint64_t job, unsigned int *seen)
{
	(void)seen;
	return store_entries_set(s, job, 1, 1, ENTRY_GONE);
}

static int add_problem(struct store *s, uint64_t job, unsigned int *seen)
{
	const struct problem_record p = { .path = "/new", .what = "?" };

	(void)seen;
	return store_problem_add(s, job, &p);
}

static int set_meta(struct store *s, uint64_t job, unsigned int *seen)
{
	(void)job;
	(void)seen;
	return store_meta_set(s, "paused", "no");
}

static const read_t reads[] = { get_job, each_job, each_dir, each_entry, each_problem, get_meta };
static const read_t writes[] = { add_job,   update_job,  remove_job,  add_dir,
				 add_entry, set_entries, add_problem, set_meta };

START_TEST(tables_that_go_while_it_is_open_are_damage)
{
	unsigned int seen = 0;
	struct state_dir d;
	struct store *s = fill(&d);

	ck_assert_int_eq(
		sqlite3_exec(s->db,
			     "PRAGMA foreign_keys = OFF; DROP TABLE meta; DROP TABLE dirs; "
			     "DROP TABLE entries; DROP TABLE problems; DROP TABLE jobs",
			     NULL, NULL, NULL),
		SQLITE_OK);
	for (size_t i = 0; i < ELEMENTSOF(reads); i++)
		ck_assert_msg(reads[i](s, 1, &seen) == -EUCLEAN, "reading %zu", i);
	for (size_t i = 0; i < ELEMENTSOF(writes); i++)
		ck_assert_msg(writes[i](s, 1, &seen) == -EUCLEAN, "writing %zu", i);
	store_history_limit(s, &(struct history_limits){ .before_usec = UINT64_MAX });
	ck_assert_int_eq(store_history_step(s), -EUCLEAN);
	ck_assert_uint_eq(seen, 0);
	store_close(s);
	state_remove(&d);
}
END_TEST

static int is_not_called(struct store *s, void *userdata)
{
	(void)s;
	(void)userdata;
	ck_abort_msg("there is no transaction");
	return 0;
}

/* Without the transaction that it belongs to, a change would be one of its own, and durable. */
START_TEST(nothing_is_written_when_the_transaction_has_gone)
{
	unsigned int seen = 0;
	struct state_dir d;
	struct store *s = fill(&d);

	for (size_t i = 0; i < ELEMENTSOF(writes); i++) {
		ck_assert_int_eq(store_begin(s), 0);
		ck_assert_int_eq(set_entries(s, 2, &seen), 0);
		ck_assert_int_eq(sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
		ck_assert_msg(writes[i](s, 1, &seen) == -ECANCELED, "writing %zu", i);
		ck_assert_int_eq(store_part(s, is_not_called, NULL), -ECANCELED);
		ck_assert_int_eq(store_commit(s), -ECANCELED);
	}
	ck_assert_uint_eq(seen, 0);
	store_close(s);
	s = state_open(&d);
	ck_assert_uint_eq(jobs_count(s), 2);
	ck_assert_int_eq(get_meta(s, 1, &seen), 0);
	ck_assert_uint_eq(entries_count(s, 1), 1);
	/* And the next one goes well. */
	ck_assert_int_eq(store_begin(s), 0);
	ck_assert_int_eq(add_job(s, 0, &seen), 0);
	ck_assert_int_eq(store_commit(s), 0);
	ck_assert_uint_eq(jobs_count(s), 3);
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(what_is_too_long_is_refused_whole)
{
	const struct lasting_identity id = { .ino = 1 };
	char path[8192];
	struct job_record r = { .path = path, .origin = "submit" };
	struct entry_record e = { .seq = 2, .dir = 1, .name = path };
	struct problem_record p = { .path = path, .what = "too long" };
	struct state_dir d;
	struct store *s = fill(&d);
	uint64_t job = 0;

	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	(void)sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, 4096);
	ck_assert_int_eq(store_job_add(s, &r, &job), -E2BIG);
	ck_assert_uint_eq(job, 0);
	ck_assert_int_eq(store_dir_add(s, 1, 2, path, &id), -E2BIG);
	ck_assert_int_eq(store_entry_add(s, 1, &e), -E2BIG);
	ck_assert_int_eq(store_problem_add(s, 1, &p), -E2BIG);
	ck_assert_int_eq(store_meta_set(s, "paused", path), -E2BIG);
	r = (struct job_record){ .id = 1, .message = path };
	ck_assert_int_eq(store_job_update(s, &r), -E2BIG);
	/* What was kept of the statements is of use again. */
	ck_assert_int_eq(job_make(s, "/short", 1, &job), 0);
	ck_assert_uint_eq(jobs_count(s), 3);
	ck_assert_uint_eq(entries_count(s, 1), 1);
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(states_that_there_are_not_are_refused)
{
	const struct job_record wrong[] = { { .id = 1, .state = JOB_STATES },
					    { .id = 1, .resume_state = JOB_STATES },
					    { .id = 1, .priority = PRIORITY_HIGH + 1 } };
	const struct entry_record e = { .seq = 2, .dir = 1, .name = "a", .state = ENTRY_STATES };
	struct state_dir d;
	struct store *s = fill(&d);
	uint64_t job = 0;

	for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
		ck_assert_int_eq(store_job_add(s, &wrong[i], &job), -EINVAL);
		ck_assert_int_eq(store_job_update(s, &wrong[i]), -EINVAL);
	}
	ck_assert_int_eq(store_entry_add(s, 1, &e), -EINVAL);
	ck_assert_int_eq(store_entries_set(s, 1, 1, 1, ENTRY_STATES), -EINVAL);
	ck_assert_uint_eq(jobs_count(s), 2);
	ck_assert_uint_eq(entries_count(s, 1), 1);
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(what_there_is_not_and_what_there_is_already)
{
	unsigned int seen = 0;
	struct state_dir d;
	struct store *s = fill(&d);

	ck_assert_int_eq(update_job(s, 99, &seen), -ENOENT);
	ck_assert_int_eq(remove_job(s, 99, &seen), -ENOENT);
	ck_assert_int_eq(get_job(s, 99, &seen), -ENOENT);
	ck_assert_int_eq(add_entry(s, 99, &seen), -ENOENT);
	ck_assert_int_eq(add_dir(s, 99, &seen), -ENOENT);
	ck_assert_int_eq(add_entry(s, 1, &seen), 0);
	ck_assert_int_eq(add_entry(s, 1, &seen), -EEXIST);
	ck_assert_int_eq(add_dir(s, 1, &seen), 0);
	ck_assert_int_eq(add_dir(s, 1, &seen), -EEXIST);
	ck_assert_uint_eq(seen, 0);
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(errors_are_what_sqlite_means)
{
	static const struct {
		int rc, expected;
	} known[] = {
		{ SQLITE_OK, 0 },
		{ SQLITE_ROW, 0 },
		{ SQLITE_DONE, 0 },
		{ SQLITE_NOMEM, -ENOMEM },
		{ SQLITE_IOERR_NOMEM, -ENOMEM },
		{ SQLITE_FULL, -ENOSPC },
		{ SQLITE_READONLY_DBMOVED, -EROFS },
		{ SQLITE_IOERR_READ, -EIO },
		{ SQLITE_CANTOPEN, -EIO },
		{ SQLITE_BUSY_SNAPSHOT, -EBUSY },
		{ SQLITE_LOCKED, -EBUSY },
		{ SQLITE_CONSTRAINT_UNIQUE, -EEXIST },
		{ SQLITE_CONSTRAINT_ROWID, -EEXIST },
		{ SQLITE_CONSTRAINT_FOREIGNKEY, -ENOENT },
		{ SQLITE_CONSTRAINT_NOTNULL, -EINVAL },
		{ SQLITE_TOOBIG, -E2BIG },
		{ SQLITE_ABORT, -ECANCELED },
		{ SQLITE_MISUSE, -EINVAL },
		{ SQLITE_RANGE, -EINVAL },
		{ SQLITE_CORRUPT, -EUCLEAN },
		{ SQLITE_NOTADB, -EUCLEAN },
	};

	for (size_t i = 0; i < ELEMENTSOF(known); i++)
		ck_assert_msg(store_error(NULL, known[i].rc) == known[i].expected, "%d",
			      known[i].rc);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		test_fault_05_a_damaged_row_is_not_handed_out,
		test_fault_05_nor_is_one_of_what_belongs_to_a_job,
		tables_that_go_while_it_is_open_are_damage,
		nothing_is_written_when_the_transaction_has_gone,
		what_is_too_long_is_refused_whole,
		states_that_there_are_not_are_refused,
		what_there_is_not_and_what_there_is_already,
		errors_are_what_sqlite_means,
	};

	return run_case("store-rows", tests, ELEMENTSOF(tests));
}
