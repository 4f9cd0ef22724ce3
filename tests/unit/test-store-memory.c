/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each allocation of SQLite fails in turn, alone or with those that come after it: what is asked of
 * the store is done or answered with -ENOMEM, never taken for damage, and never done by half; what
 * was answered is there when it is opened again. */
#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "failing.h"
#include "store-support.h"
#include "support.h"
#include "base/macros.h"

static sqlite3_mem_methods system_memory;

static void *memory_get(int n)
{
	return fails(ENOMEM) ? NULL : system_memory.xMalloc(n);
}

static void *memory_resize(void *p, int n)
{
	return fails(ENOMEM) ? NULL : system_memory.xRealloc(p, n);
}

/* Without its own store of small pieces, so that each is asked for here. */
static void memory_replace(void)
{
	sqlite3_mem_methods ours;
	int rc = sqlite3_config(SQLITE_CONFIG_GETMALLOC, &system_memory);

	ours = system_memory;
	ours.xMalloc = memory_get;
	ours.xRealloc = memory_resize;
	if (rc == SQLITE_OK)
		rc = sqlite3_config(SQLITE_CONFIG_MALLOC, &ours);
	if (rc == SQLITE_OK)
		rc = sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
	if (rc != SQLITE_OK)
		abort(); /* outside of tests nothing is asserted */
}

/* ---- what is asked -------------------------------------------------------------------------- */

static int see_job(const struct job_record *r, void *userdata)
{
	*(uint64_t *)userdata += r->names;
	return strcmp(r->path, "/a") == 0 || strcmp(r->path, "/b") == 0 ? 0 : -EBADMSG;
}

static int see_entry(const struct entry_record *e, void *userdata)
{
	*(uint64_t *)userdata += e->seq;
	return strncmp(e->name, "entry-", 6) == 0 ? 0 : -EBADMSG;
}

static int see_dir(uint64_t dir, const char *path, const struct lasting_identity *id,
		   void *userdata)
{
	*(uint64_t *)userdata += id->ino;
	return dir == 1 && strcmp(path, "/a") == 0 ? 0 : -EBADMSG;
}

static int see_problem(const struct problem_record *p, void *userdata)
{
	++*(uint64_t *)userdata;
	return strcmp(p->path, "/a/x") == 0 && p->error == -EIO ? 0 : -EBADMSG;
}

static int add_job(struct store *s)
{
	struct job_record job = { .path = "/b", .origin = "submit", .names = 1 };
	uint64_t id;

	return store_job_add(s, &job, &id);
}

static int update_job(struct store *s)
{
	struct job_record job = { .id = 1, .state = JOB_RUNNING, .message = "it runs", .names = 3 };

	return store_job_update(s, &job);
}

static int add_entry(struct store *s)
{
	struct entry_record e = { .seq = 4, .dir = 1, .name = "entry-4", .id = { .ino = 4 } };
	int r = store_entry_add(s, 1, &e);

	return r == -EEXIST ? 0 : r;
}

static int set_entries(struct store *s)
{
	return store_entries_set(s, 1, 1, 2, ENTRY_GONE);
}

static int add_dir(struct store *s)
{
	struct lasting_identity id = { .ino = 7 };
	int r = store_dir_add(s, 1, 1, "/a", &id);

	return r == -EEXIST ? 0 : r;
}

static int add_problem(struct store *s)
{
	struct problem_record p = { "/a/x", "cannot be unlinked", -EIO, true };

	return store_problem_add(s, 1, &p);
}

static int set_meta(struct store *s)
{
	return store_meta_set(s, "paused", "yes");
}

static int get_meta(struct store *s)
{
	char *value = NULL;
	int r = store_meta_get(s, "paused", &value);

	if (r == 0)
		ck_assert_str_eq(value, "yes");
	free(value);
	return r == -ENOENT ? 0 : r;
}

static int read_all(struct store *s)
{
	struct job_filter unfinished = { .states = 1U << JOB_RUNNING | 1U << JOB_ACCEPTED };
	uint64_t names = 0, entries = 0, inos = 0, problems = 0;
	int r = store_jobs_each(s, &unfinished, see_job, &names);

	if (r == 0)
		r = store_job_get(s, 1, see_job, &names);
	if (r == 0)
		r = store_entries_each(s, 1, 0, 0, see_entry, &entries);
	if (r == 0)
		r = store_dirs_each(s, 1, 0, UINT64_MAX, see_dir, &inos);
	if (r == 0)
		r = store_problems_each(s, 1, 0, 0, see_problem, &problems);
	if (r == 0)
		r = get_meta(s);
	return r;
}

static int purge(struct store *s)
{
	int r;

	store_history_limit(s, &(struct history_limits){ 1000, 1, 1 });
	r = store_history_step(s);
	return MIN(r, 0);
}

static int remove_job(struct store *s)
{
	int r = store_job_remove(s, 99);

	return r == -ENOENT ? 0 : r;
}

/* A transaction of two, of which the second is taken back alone. */
static int several(struct store *s)
{
	int r = store_begin(s);

	if (r < 0)
		return r;
	r = set_entries(s);
	if (r == 0)
		r = add_problem(s);
	if (r == 0)
		return store_commit(s);
	store_rollback(s);
	return r;
}

static int (*const asked[])(struct store *s) = {
	add_job,  update_job, add_entry, set_entries, add_dir,    add_problem, set_meta,
	get_meta, read_all,   purge,     several,     remove_job, read_all,
};

/* ---- what must be so ------------------------------------------------------------------------ */

/* Returns what was asked in vain; *ret_added, how many jobs there are more. */
static unsigned ask_all(struct store *s, unsigned nth, uint64_t *ret_added)
{
	unsigned vain = 0;

	for (size_t i = 0; i < ELEMENTSOF(asked); i++) {
		int r = asked[i](s);

		ck_assert_msg(r == 0 || (failing_met() && r == -ENOMEM), "%u: %zu %d", nth, i, r);
		*ret_added += asked[i] == add_job && r == 0;
		vain += r < 0;
	}
	return vain;
}

enum when { OPENING, READING, ASKING };

/* A store with a job: whether the failure was met. */
static bool meets(enum when when, unsigned nth, unsigned n_more)
{
	uint64_t id, added = 0;
	const char *why = "";
	struct state_dir d;
	char *aside = NULL;
	struct store *s;
	bool met;
	int r;

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(job_make(s, "/a", 3, &id), 0);
	ck_assert_int_eq(add_dir(s), 0);
	ck_assert_int_eq(add_problem(s), 0);
	ck_assert_int_eq(set_meta(s), 0);
	store_close(s);
	s = when == OPENING ? NULL : state_open(&d);
	failing_arm(nth, n_more);
	r = s ? 0 : store_open(&s, d.path, &aside, &why);
	if (when == ASKING)
		(void)ask_all(s, nth, &added);
	else if (when == READING)
		r = read_all(s);
	store_close(s);
	met = failing_disarm();
	ck_assert_msg(r == 0 || (met && r == -ENOMEM), "%u: %d %s", nth, r, why);
	ck_assert_ptr_null(aside);
	s = state_open(&d);
	ck_assert_uint_eq(jobs_count(s), 1 + added);
	ck_assert_uint_ge(entries_count(s, 1), 3);
	ck_assert_uint_eq(ask_all(s, nth, &added), 0);
	store_close(s);
	state_remove(&d);
	return met;
}

/* What could not be read for want of memory is not damaged. */
START_TEST(test_fault_14_sqlite_has_no_memory_to_read)
{
	for (unsigned nth = 1; meets(READING, nth, 0); nth++)
		;
}
END_TEST

START_TEST(test_fault_14_sqlite_has_no_memory)
{
	/* Not each one: a few hundred of some thousands are met in the different rows. */
	for (unsigned nth = 1; meets(ASKING, nth, 0); nth += 19)
		;
	for (unsigned nth = 1; meets(ASKING, nth, 5); nth += 17)
		;
	for (unsigned nth = 1; meets(ASKING, nth, UINT_MAX); nth += 37)
		;
}
END_TEST

START_TEST(test_fault_14_nor_when_it_is_opened)
{
	for (unsigned nth = 1; meets(OPENING, nth, 0); nth += 29)
		;
}
END_TEST

START_TEST(test_fault_14_nor_at_the_first_start)
{
	bool met = true;

	for (unsigned nth = 1; met; nth += 47) {
		const char *why = "";
		struct state_dir d;
		struct store *s = NULL;
		char *aside = NULL;
		int r;

		state_make(&d);
		failing_arm(nth, 0);
		r = store_open(&s, d.path, &aside, &why);
		store_close(s);
		met = failing_disarm();
		ck_assert_msg(r == 0 || (met && r == -ENOMEM), "%u: %d %s", nth, r, why);
		ck_assert_ptr_null(aside);
		store_close(state_open(&d));
		state_remove(&d);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { test_fault_14_sqlite_has_no_memory_to_read,
				       test_fault_14_sqlite_has_no_memory,
				       test_fault_14_nor_when_it_is_opened,
				       test_fault_14_nor_at_the_first_start };

	memory_replace();
	return run_case("store-memory", tests, ELEMENTSOF(tests));
}
