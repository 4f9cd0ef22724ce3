/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What goes into the store comes out of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "store-support.h"
#include "support.h"
#include "base/macros.h"
#include "store/store-internal.h"

/* Bytes that are no text in any encoding. */
#define ODD "/a\x01\xff\xfe\n'\"%s\xc3(\x80"

static const gid_t groups[] = { 4, 0, 4294967294U };
static const struct lasting_identity identity = { UINT64_MAX, (uint64_t)INT64_MAX + 7, -5,
						  S_IFDIR };

static struct job_record full_job(void)
{
	return (struct job_record){
		.uuid = { 0, 1, 2, 0, 255, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0 },
		.state = JOB_PAUSED,
		.resume_state = JOB_HELD,
		.priority = PRIORITY_HIGH,
		.uid = 4294967294U,
		.gid = 1001,
		.groups = groups,
		.n_groups = ELEMENTSOF(groups),
		.origin = "spool:" ODD,
		.path = ODD,
		.mount = "/mnt" ODD,
		.staging = "17" ODD,
		.host = "rack7" ODD,
		.inplace = "read-only" ODD,
		.message = "waits" ODD,
		.strategy = "fast" ODD,
		.staging_id = identity,
		.names = 1,
		.entries = 2,
		.bytes = UINT64_MAX,
		.entries_done = 4,
		.bytes_freed = (uint64_t)INT64_MAX + 1,
		.errors = 6,
		.skipped = 7,
		.created_usec = 8,
		.held_until_usec = 9,
		.by_usec = 10,
		.started_usec = 11,
		.finished_usec = 12,
		.attempts = UINT32_MAX,
		.kind = JOB_RMDIR,
		.others_units = 13,
		.others_entries = 14,
		.others_bytes = 15,
	};
}

static void assert_identity(const struct lasting_identity *a, const struct lasting_identity *b)
{
	ck_assert_uint_eq(a->fsid, b->fsid);
	ck_assert_uint_eq(a->ino, b->ino);
	ck_assert_int_eq(a->btime_nsec, b->btime_nsec);
	ck_assert_uint_eq(a->type, b->type);
}

static int assert_job(const struct job_record *r, void *userdata)
{
	const struct job_record *e = userdata;

	ck_assert_uint_eq(r->id, e->id);
	ck_assert_mem_eq(r->uuid, e->uuid, sizeof(e->uuid));
	ck_assert_int_eq(r->state, e->state);
	ck_assert_int_eq(r->resume_state, e->resume_state);
	ck_assert_int_eq(r->priority, e->priority);
	ck_assert_uint_eq(r->uid, e->uid);
	ck_assert_uint_eq(r->gid, e->gid);
	ck_assert_uint_eq(r->n_groups, e->n_groups);
	ck_assert_mem_eq(r->groups, e->groups, e->n_groups * sizeof(gid_t));
	ck_assert_str_eq(r->origin, e->origin);
	ck_assert_str_eq(r->path, e->path);
	ck_assert_str_eq(r->mount, e->mount);
	ck_assert_str_eq(r->staging, e->staging);
	ck_assert_str_eq(r->host, e->host);
	ck_assert_str_eq(r->inplace, e->inplace);
	ck_assert_str_eq(r->message, e->message);
	ck_assert_str_eq(r->strategy, e->strategy);
	assert_identity(&r->staging_id, &e->staging_id);
	ck_assert_uint_eq(r->names, e->names);
	ck_assert_uint_eq(r->entries, e->entries);
	ck_assert_uint_eq(r->bytes, e->bytes);
	ck_assert_uint_eq(r->entries_done, e->entries_done);
	ck_assert_uint_eq(r->bytes_freed, e->bytes_freed);
	ck_assert_uint_eq(r->errors, e->errors);
	ck_assert_uint_eq(r->skipped, e->skipped);
	ck_assert_uint_eq(r->created_usec, e->created_usec);
	ck_assert_uint_eq(r->held_until_usec, e->held_until_usec);
	ck_assert_uint_eq(r->by_usec, e->by_usec);
	ck_assert_uint_eq(r->started_usec, e->started_usec);
	ck_assert_uint_eq(r->finished_usec, e->finished_usec);
	ck_assert_uint_eq(r->attempts, e->attempts);
	ck_assert_uint_eq(r->kind, e->kind);
	ck_assert_uint_eq(r->others_units, e->others_units);
	ck_assert_uint_eq(r->others_entries, e->others_entries);
	ck_assert_uint_eq(r->others_bytes, e->others_bytes);
	return 42;
}

START_TEST(a_job_comes_back_as_it_was)
{
	struct state_dir d;
	struct job_record job = full_job();
	struct store *s;

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(store_job_add(s, &job, &job.id), 0);
	ck_assert_uint_eq(job.id, 1);
	ck_assert_int_eq(store_job_get(s, job.id, assert_job, &job), 42);
	store_close(s);
	s = state_open(&d);
	ck_assert_int_eq(store_job_get(s, job.id, assert_job, &job), 42);
	ck_assert_int_eq(store_job_get(s, 2, assert_job, &job), -ENOENT);
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(an_update_changes_all_but_who_what_and_when)
{
	struct state_dir d;
	struct job_record was = full_job(), job, other = { .id = 0 };
	struct store *s;
	uint64_t second;

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(store_job_add(s, &was, &was.id), 0);
	ck_assert_int_eq(store_job_add(s, &was, &second), 0);
	other.id = was.id;
	ck_assert_int_eq(store_job_update(s, &other), 0);
	job = (struct job_record){
		.id = was.id,
		.kind = was.kind,
		.uid = was.uid,
		.gid = was.gid,
		.groups = was.groups,
		.n_groups = was.n_groups,
		.origin = was.origin,
		.path = was.path,
		.created_usec = was.created_usec,
		.mount = "",
		.staging = "",
		.host = "",
		.inplace = "",
		.message = "",
		.strategy = "",
		.staging_id = was.staging_id,
	};
	memcpy(job.uuid, was.uuid, sizeof(job.uuid));
	ck_assert_int_eq(store_job_get(s, was.id, assert_job, &job), 42);
	job.staging_id.ino = 1;
	ck_assert_int_eq(store_job_staged(s, was.id, &job.staging_id), 0);
	ck_assert_int_eq(store_job_get(s, was.id, assert_job, &job), 42);
	ck_assert_int_eq(store_job_staged(s, was.id, &was.staging_id), 0);
	ck_assert_int_eq(store_job_staged(s, 3, &was.staging_id), -ENOENT);
	ck_assert_int_eq(store_job_update(s, &was), 0);
	ck_assert_int_eq(store_job_get(s, was.id, assert_job, &was), 42);
	was.id = second;
	ck_assert_int_eq(store_job_get(s, second, assert_job, &was), 42);
	was.id = 3;
	ck_assert_int_eq(store_job_update(s, &was), -ENOENT);
	was.id = 1;
	was.state = JOB_STATES;
	ck_assert_int_eq(store_job_update(s, &was), -EINVAL);
	ck_assert_int_eq(store_job_add(s, &was, &second), -EINVAL);
	store_close(s);
	state_remove(&d);
}
END_TEST

struct ids {
	uint64_t id[16];
	size_t n;
};

static int gather(const struct job_record *r, void *userdata)
{
	struct ids *ids = userdata;

	ids->id[ids->n++] = r->id;
	return 0;
}

static void assert_gathered(const struct ids *ids, const char *expected)
{
	char text[64] = "";

	for (size_t i = 0; i < ids->n; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ",
			       (int)ids->id[i]);
	ck_assert_str_eq(text, expected);
}

static void assert_ids(struct store *s, const struct job_filter *f, const char *expected)
{
	struct ids ids = { .n = 0 };

	ck_assert_int_eq(store_jobs_each(s, f, gather, &ids), 0);
	assert_gathered(&ids, expected);
}

static void assert_history(struct store *s, const struct job_filter *f, const char *expected)
{
	struct ids ids = { .n = 0 };

	ck_assert_int_eq(store_history_each(s, f, gather, &ids), 0);
	assert_gathered(&ids, expected);
}

/* Jobs 1..10, one in each state, of three users in turn; finished ones ended at 1000 * id. */
static void limit_history(struct store *s, uint64_t before_usec, uint64_t jobs, uint64_t bytes)
{
	int r;

	store_history_limit(s, &(struct history_limits){ before_usec, jobs, bytes });
	while ((r = store_history_step(s)) > 0)
		;
	ck_assert_int_eq(r, 0);
}

static void add_one_in_each_state(struct store *s)
{
	for (unsigned int i = 0; i < JOB_STATES; i++) {
		struct job_record job = { .state = (enum job_state)i, .uid = i % 3 };
		uint64_t id;

		job.finished_usec = i >= JOB_DONE ? 1000ULL * (i + 1) : 0;
		ck_assert_int_eq(store_job_add(s, &job, &id), 0);
		ck_assert_uint_eq(id, i + 1);
	}
}

START_TEST(filters_choose_jobs_in_the_order_of_their_numbers)
{
	struct state_dir d;
	struct store *s;
	struct job_filter f = { 0 };

	state_make(&d);
	s = state_open(&d);
	add_one_in_each_state(s);
	assert_ids(s, &f, "6 7 8 9 10 ");
	f.states = 1U << JOB_QUEUED | 1U << JOB_HELD; /* by the index */
	assert_ids(s, &f, "2 3 ");
	f = (struct job_filter){ .states = (1U << JOB_DONE) - 1, .one_uid = true, .uid = 0 };
	assert_ids(s, &f, "1 4 ");
	f.since_id = 2;
	assert_ids(s, &f, "4 ");
	f = (struct job_filter){ .one_uid = true, .uid = 0, .limit = 1 };
	assert_ids(s, &f, "7 ");
	f = (struct job_filter){ 0 };
	assert_history(s, &f, "6 7 8 9 10 ");
	f = (struct job_filter){ .since_id = 3, .limit = 3 };
	assert_history(s, &f, "6 7 8 ");
	f = (struct job_filter){ .states = 1U << JOB_RUNNING | 1U << JOB_FAILED };
	assert_history(s, &f, "8 ");
	f.states = 1U << JOB_RUNNING;
	assert_history(s, &f, "");
	f = (struct job_filter){ .one_uid = true, .uid = 0, .since_id = 8 };
	assert_history(s, &f, "10 ");
	f.states = ~0U << JOB_DONE; /* by the history */
	assert_ids(s, &f, "10 ");
	f = (struct job_filter){ .states = 1U << JOB_PARTIAL | 1U << JOB_FAILED };
	assert_ids(s, &f, "7 8 ");
	f = (struct job_filter){ .since_id = UINT64_MAX };
	assert_ids(s, &f, "");
	f = (struct job_filter){ .states = (1U << JOB_DONE) - 1, .limit = UINT64_MAX };
	assert_ids(s, &f, "1 2 3 4 5 ");
	ck_assert_int_eq(store_jobs_each(s, &f, assert_job,
					 &(struct job_record){ .id = 1,
							       .groups = groups,
							       .origin = "",
							       .path = "",
							       .mount = "",
							       .staging = "",
							       .host = "",
							       .inplace = "",
							       .message = "",
							       .strategy = "" }),
			 42);
	store_close(s);
	state_remove(&d);
}
END_TEST

static int update_each(const struct job_record *r, void *userdata)
{
	struct job_record changed = *r;

	changed.state = JOB_QUEUED;
	ck_assert_uint_eq(jobs_count(userdata), JOB_STATES);
	return store_job_update(userdata, &changed);
}

static int assert_line(const struct job_record *r, void *userdata)
{
	const struct job_record *e = userdata;

	ck_assert_uint_eq(r->id, e->id);
	ck_assert_int_eq(r->state, e->state);
	ck_assert_int_eq(r->priority, e->priority);
	ck_assert_uint_eq(r->uid, e->uid);
	ck_assert_str_eq(r->origin, e->origin);
	ck_assert_str_eq(r->path, e->path);
	ck_assert_uint_eq(r->names, e->names);
	ck_assert_uint_eq(r->entries, e->entries);
	ck_assert_uint_eq(r->bytes, e->bytes);
	ck_assert_uint_eq(r->entries_done, e->entries_done);
	ck_assert_uint_eq(r->bytes_freed, e->bytes_freed);
	ck_assert_uint_eq(r->errors, e->errors);
	ck_assert_uint_eq(r->created_usec, e->created_usec);
	ck_assert_uint_eq(r->held_until_usec, e->held_until_usec);
	ck_assert_uint_eq(r->started_usec, e->started_usec);
	ck_assert_uint_eq(r->finished_usec, e->finished_usec);
	ck_assert_str_eq(r->mount, "");
	ck_assert_str_eq(r->message, "");
	return 42;
}

START_TEST(history_has_what_a_list_shows_of_what_has_finished)
{
	struct job_record job = full_job(), ended;
	struct state_dir d;
	struct store *s;
	struct job_filter all = { 0 };

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(store_job_add(s, &job, &job.id), 0);
	assert_history(s, &all, "");
	ended = job;
	ended.state = JOB_PARTIAL;
	ended.entries_done = 77;
	ended.origin = "not looked at"; /* as who, what and when do not change */
	ck_assert_int_eq(store_job_update(s, &ended), 0);
	ended.origin = job.origin;
	ck_assert_int_eq(store_history_each(s, &all, assert_line, &ended), 42);
	ended.errors = 8;
	ck_assert_int_eq(store_job_update(s, &ended), 0);
	ck_assert_int_eq(store_history_each(s, &all, assert_line, &ended), 42);
	store_close(s);
	s = state_open(&d);
	ck_assert_int_eq(store_history_each(s, &all, assert_line, &ended), 42);
	limit_history(s, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	assert_history(s, &all, "");
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(a_line_that_is_none_is_damage)
{
	static const char *const damage[] = {
		"UPDATE history SET line = x'00'",
		"UPDATE history SET line = CAST(line AS BLOB) || x'6100'",
		"UPDATE history SET line = substr(line, 1, length(line) - 1)",
		"UPDATE history SET line = zeroblob(80)",
		"UPDATE history SET line = substr(line, 1, 8) || x'ff' || substr(line, 10)",
		"UPDATE history SET outcome = 10",
	};
	struct job_record job = { .state = JOB_DONE, .path = "/a", .origin = "submit" };

	for (size_t i = 0; i < ELEMENTSOF(damage); i++) {
		struct job_filter all = { 0 };
		struct state_dir d;
		struct store *s;

		state_make(&d);
		s = state_open(&d);
		ck_assert_int_eq(store_job_add(s, &job, &job.id), 0);
		assert_history(s, &all, "1 ");
		store_close(s);
		(void)state_change(&d, damage[i]);
		s = state_open(&d);
		ck_assert_int_eq(store_history_each(s, &all, assert_line, NULL), -EUCLEAN);
		store_close(s);
		state_remove(&d);
	}
}
END_TEST

START_TEST(a_callback_may_use_the_store)
{
	struct state_dir d;
	struct store *s;
	struct job_filter unfinished = { .states = (1U << JOB_DONE) - 1 };

	state_make(&d);
	s = state_open(&d);
	add_one_in_each_state(s);
	ck_assert_int_eq(store_jobs_each(s, &unfinished, update_each, s), 0);
	assert_ids(s, &(struct job_filter){ .states = 1U << JOB_QUEUED }, "1 2 3 4 5 ");
	store_close(s);
	state_remove(&d);
}
END_TEST

static int assert_dir(uint64_t dir, const char *path, const struct lasting_identity *id,
		      void *userdata)
{
	unsigned int *n = userdata;

	ck_assert_uint_eq(dir, ++*n);
	ck_assert_str_eq(path, *n == 1 ? ODD : "");
	assert_identity(id, &identity);
	return 0;
}

static int assert_entry(const struct entry_record *e, void *userdata)
{
	uint64_t *next = userdata;

	ck_assert_uint_eq(e->seq, (*next)++);
	ck_assert_uint_eq(e->dir, 9);
	ck_assert_str_eq(e->name, ODD + 1);
	assert_identity(&e->id, &identity);
	ck_assert_int_eq(e->state, e->seq < 3 || e->seq > 5 ? ENTRY_WAITING : ENTRY_KEPT);
	return 0;
}

START_TEST(directories_and_entries_come_back)
{
	struct state_dir d;
	struct store *s;
	struct job_record job = { 0 };
	struct entry_record e = { .dir = 9, .name = ODD + 1, .id = identity };
	uint64_t id, next = 1;
	unsigned int n = 0;

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(store_job_add(s, &job, &id), 0);
	ck_assert_int_eq(store_dir_add(s, id, 2, "", &identity), 0);
	ck_assert_int_eq(store_dir_add(s, id, 1, ODD, &identity), 0);
	ck_assert_int_eq(store_dir_add(s, id, 1, ODD, &identity), -EEXIST);
	ck_assert_int_eq(store_dir_add(s, id + 1, 1, ODD, &identity), -ENOENT);
	ck_assert_int_eq(store_dirs_each(s, id, 0, UINT64_MAX, assert_dir, &n), 0);
	ck_assert_uint_eq(n, 2);
	for (e.seq = 1; e.seq <= 8; e.seq++)
		ck_assert_int_eq(store_entry_add(s, id, &e), 0);
	ck_assert_int_eq(store_entry_add(s, id + 1, &e), -ENOENT);
	e.seq = 8;
	ck_assert_int_eq(store_entry_add(s, id, &e), -EEXIST);
	ck_assert_int_eq(store_entries_set(s, id, 3, 5, ENTRY_KEPT), 0);
	ck_assert_int_eq(store_entries_set(s, id, 1, 8, ENTRY_STATES), -EINVAL);
	ck_assert_int_eq(store_entries_each(s, id, 0, 0, assert_entry, &next), 0);
	ck_assert_uint_eq(next, 9);
	next = 2;
	ck_assert_int_eq(store_entries_each(s, id, 2, 3, assert_entry, &next), 0);
	ck_assert_uint_eq(next, 5);
	store_close(s);
	state_remove(&d);
}
END_TEST

static int count_problem(const struct problem_record *p, void *userdata)
{
	(void)p;
	++*(unsigned *)userdata;
	return 0;
}

static int assert_problem(const struct problem_record *p, void *userdata)
{
	int *n = userdata;

	ck_assert_str_eq(p->path, ODD);
	ck_assert_str_eq(p->what, "unlink" ODD);
	ck_assert_int_eq(p->error, -*n);
	ck_assert_int_eq(p->is_error, *n % 2);
	++*n;
	return 0;
}

START_TEST(the_first_thousand_problems_are_kept)
{
	struct state_dir d;
	struct store *s;
	struct job_record job = { 0 };
	uint64_t id;
	int n = 0;

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(store_job_add(s, &job, &id), 0);
	ck_assert_int_eq(store_begin(s), 0);
	for (int i = 0; i < 1500; i++) {
		struct problem_record p = { ODD, "unlink" ODD, -i, i % 2 };

		ck_assert_int_eq(store_problem_add(s, id, &p), 0);
	}
	ck_assert_int_eq(store_commit(s), 0);
	ck_assert_int_eq(store_problems_each(s, id, 0, 0, assert_problem, &n), 0);
	ck_assert_int_eq(n, 1000);
	n = 10;
	ck_assert_int_eq(store_problems_each(s, id, 10, 5, assert_problem, &n), 0);
	ck_assert_int_eq(n, 15);
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(history_is_forgotten_with_all_it_had)
{
	struct state_dir d;
	struct store *s;
	struct problem_record p = { "x", "y", 0, false };
	struct job_record job = { .state = JOB_DONE, .finished_usec = 1 };
	struct entry_record e = { .seq = 1 };
	uint64_t id;

	state_make(&d);
	s = state_open(&d);
	add_one_in_each_state(s);
	for (id = 6; id <= 7; id++) {
		ck_assert_int_eq(store_dir_add(s, id, 1, "", &identity), 0);
		ck_assert_int_eq(store_entry_add(s, id, &e), 0);
		ck_assert_int_eq(store_problem_add(s, id, &p), 0);
	}
	limit_history(s, 6000, UINT64_MAX, UINT64_MAX);
	ck_assert_uint_eq(entries_count(s, 6), 1);
	limit_history(s, 6001, UINT64_MAX, UINT64_MAX);
	ck_assert_uint_eq(entries_count(s, 6), 0);
	ck_assert_uint_eq(entries_count(s, 7), 1);
	ck_assert_int_eq(store_dirs_each(s, 6, 0, UINT64_MAX, NULL, NULL), 0);
	ck_assert_int_eq(store_problems_each(s, 6, 0, 0, NULL, NULL), 0);
	assert_ids(s, &(struct job_filter){ 0 }, "7 8 9 10 ");
	limit_history(s, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	assert_ids(s, &(struct job_filter){ 0 }, "");
	ck_assert_int_eq(store_job_add(s, &job, &id), 0);
	ck_assert_uint_eq(id, 11); /* 10 is not given again */
	store_close(s);
	state_remove(&d);
}
END_TEST

/* Adds a finished job with a problem of `size` bytes. */
static void add_finished(struct store *s, uid_t uid, size_t size)
{
	struct job_record job = { .state = JOB_QUEUED, .uid = uid };
	struct problem_record p = { .what = "" };
	char *path = calloc(1, size + 1);
	uint64_t id;

	ck_assert_ptr_nonnull(path);
	p.path = memset(path, 'p', size);
	ck_assert_int_eq(store_job_add(s, &job, &id), 0);
	ck_assert_int_eq(store_problem_add(s, id, &p), 0);
	job.id = id;
	job.state = JOB_FAILED;
	job.finished_usec = 1000 * id;
	ck_assert_int_eq(store_job_update(s, &job), 0);
	ck_assert_int_eq(store_job_update(s, &job), 0); /* is counted once */
	free(path);
}

START_TEST(test_attack_49_oldest_jobs_of_the_largest_account_go_first)
{
	struct job_record job = { .state = JOB_HELD, .uid = 2 };
	struct job_filter all = { 0 };
	struct state_dir d;
	struct store *s;
	uint64_t id;

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(store_job_add(s, &job, &id), 0); /* 1 */
	add_finished(s, 1, 100);                          /* 2 */
	for (int i = 0; i < 4; i++)
		add_finished(s, 2, 50000); /* 3 to 6 */
	add_finished(s, 1, 100);           /* 7 */
	limit_history(s, 0, 100, 1000000);
	assert_history(s, &all, "2 3 4 5 6 7 ");
	limit_history(s, 0, 100, 240000); /* an account may have half of it */
	assert_history(s, &all, "2 5 6 7 ");
	limit_history(s, 0, 100, 60000);
	assert_history(s, &all, "2 7 ");
	for (int i = 0; i < 3; i++)
		add_finished(s, 3, 100); /* 8 to 10 */
	limit_history(s, 0, 8, UINT64_MAX);
	assert_history(s, &all, "2 7 8 9 10 ");
	limit_history(s, 0, 4, UINT64_MAX);
	assert_history(s, &all, "2 7 9 10 ");
	ck_assert_uint_eq(jobs_count(s), 5); /* the held one, too */
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(names_put_back_into_spools_are_remembered)
{
	struct job_record job = {
		.state = JOB_RESTORED, .uid = 1, .origin = "spool:/a", .names = 100000
	};
	struct job_filter all = { 0 };
	struct state_dir d;
	struct store *s;
	uint64_t id;

	state_make(&d);
	s = state_open(&d);
	for (job.finished_usec = 1; job.finished_usec <= 2; job.finished_usec++)
		ck_assert_int_eq(store_job_add(s, &job, &id), 0); /* 1 and 2 */
	for (int i = 0; i < 30; i++)
		add_finished(s, 1, 100000); /* 3 to 32 */
	s->is_short = true;
	ck_assert_int_eq(store_history_step(s), 1);
	assert_history(s, &(struct job_filter){ .limit = 3 }, "1 2 4 ");
	limit_history(s, 0, 4, UINT64_MAX);
	assert_history(s, &all, "1 2 31 32 ");
	limit_history(s, 2, 4, UINT64_MAX);
	assert_history(s, &all, "2 31 32 ");
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(the_file_shrinks_with_the_history)
{
	struct state_dir d;
	struct store *s;
	char path[256];
	struct stat before, after;

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(store_begin(s), 0);
	for (int i = 0; i < 200; i++)
		add_finished(s, 1, 50000);
	ck_assert_int_eq(store_commit(s), 0);
	store_close(s);
	ck_assert_int_eq(stat(state_file(&d, "reclaimd.db", path), &before), 0);
	s = state_open(&d);
	limit_history(s, 0, 100, 1000000);
	ck_assert_int_eq(stat(path, &after), 0);
	store_close(s);
	ck_assert_int_gt(before.st_size, 10000000);
	ck_assert_int_lt(after.st_size, 3000000);
	state_remove(&d);
}
END_TEST

START_TEST(problems_of_a_job_are_limited_by_size)
{
	struct job_record job = { .state = JOB_QUEUED };
	struct problem_record p = { .what = "" };
	static char path[5001];
	struct state_dir d;
	struct store *s;
	uint64_t id;
	unsigned n = 0;

	state_make(&d);
	s = state_open(&d);
	p.path = memset(path, 'p', 5000);
	ck_assert_int_eq(store_job_add(s, &job, &id), 0);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(store_problem_add(s, id, &p), 0);
	ck_assert_int_eq(store_problems_each(s, id, 0, 0, count_problem, &n), 0);
	ck_assert_uint_eq(n, 53); /* the last one exceeds 256 KiB */
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(a_transaction_is_all_or_nothing)
{
	struct state_dir d;
	struct store *s;
	uint64_t id;

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(store_begin(s), 0);
	ck_assert_int_eq(store_begin(s), -EBUSY);
	ck_assert_int_eq(job_make(s, "/a", 10, &id), 0);
	store_rollback(s);
	ck_assert_int_eq(store_commit(s), -EINVAL);
	ck_assert_uint_eq(jobs_count(s), 0);
	ck_assert_int_eq(store_begin(s), 0);
	ck_assert_int_eq(job_make(s, "/a", 10, &id), 0);
	ck_assert_int_eq(store_commit(s), 0);
	ck_assert_int_eq(store_begin(s), 0);
	ck_assert_int_eq(job_make(s, "/b", 10, &id), 0);
	store_close(s); /* without a commit */
	s = state_open(&d);
	ck_assert_uint_eq(jobs_count(s), 1);
	ck_assert_uint_eq(entries_count(s, 1), 10);
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(every_state_has_a_name)
{
	for (unsigned int i = 0; i < JOB_STATES; i++)
		ck_assert_ptr_nonnull(job_state_name((enum job_state)i));
	for (unsigned int i = 0; i < ENTRY_STATES; i++)
		ck_assert_ptr_nonnull(entry_state_name((enum entry_state)i));
	ck_assert_str_eq(job_state_name(JOB_RESTORED), "restored");
	ck_assert_str_eq(entry_state_name(ENTRY_WAITING), "waiting");
	ck_assert_str_eq(job_priority_name(PRIORITY_LOW), "low");
	ck_assert_str_eq(job_priority_name(PRIORITY_HIGH), "high");
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		a_job_comes_back_as_it_was,
		an_update_changes_all_but_who_what_and_when,
		filters_choose_jobs_in_the_order_of_their_numbers,
		history_has_what_a_list_shows_of_what_has_finished,
		a_line_that_is_none_is_damage,
		a_callback_may_use_the_store,
		directories_and_entries_come_back,
		the_first_thousand_problems_are_kept,
		problems_of_a_job_are_limited_by_size,
		test_attack_49_oldest_jobs_of_the_largest_account_go_first,
		names_put_back_into_spools_are_remembered,
		the_file_shrinks_with_the_history,
		history_is_forgotten_with_all_it_had,
		a_transaction_is_all_or_nothing,
		every_state_has_a_name,
	};

	return run_case("store", tests, ELEMENTSOF(tests));
}
