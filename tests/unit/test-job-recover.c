/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a start of the daemon makes of jobs on record (src/daemon/jobs/job-recover.c), and of
 * directories in staging that are of none (orphans.c). */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/jobs/job-recover.h"
#include "job-world.h"

static struct job_world w;

static uint64_t held(void)
{
	uint64_t id;

	file_make(w.mount, "data/a", "old");
	id = job_world_submit(&w, "data/a", HOUR_USEC);
	ck_assert_msg(id > 0, "%s", w.failure.text.line);
	return id;
}

static enum job_state state, resume;

static int set_states(const struct job_record *r, void *userdata)
{
	struct job_record changed = *r;

	changed.state = state;
	changed.resume_state = resume;
	return store_job_update(userdata, &changed);
}

/* The machine has stopped with this on record. */
static void change(struct store *s, uint64_t id)
{
	ck_assert_int_eq(store_job_get(s, id, set_states, s), 0);
}

static void restart_as(uint64_t id, enum job_state as, enum job_state to)
{
	state = as;
	resume = to;
	job_world_restart(&w, change, id);
}

START_TEST(test_recover_holds_what_was_held)
{
	uint64_t id = held();

	job_world_restart(&w, NULL, 0);
	ck_assert_int_eq(job_world_job(&w, id)->phase, PHASE_HELD);
	ck_assert_uint_gt(job_world_job(&w, id)->stub->due.index, 0); /* its time is waited for */
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	ck_assert(job_world_has(&w, "data/a"));
}
END_TEST

START_TEST(test_recover_leaves_what_pauses)
{
	uint64_t id = held();

	restart_as(id, JOB_PAUSED, JOB_QUEUED);
	ck_assert_int_eq(job_world_job(&w, id)->phase, PHASE_PAUSED);
	ck_assert_int_eq(access(job_world_staged(&w, id), F_OK), 0);
}
END_TEST

/* What was asked back must not be deleted. */
START_TEST(test_recover_goes_on_putting_back)
{
	static const enum job_state to[] = { JOB_CANCELLED, JOB_RESTORED };

	for (size_t i = 0; i < ELEMENTSOF(to); i++) {
		uint64_t id = held();

		restart_as(id, JOB_PAUSED, to[i]);
		job_world_wait_finished(&w, id);
		ck_assert_int_eq(w.state, to[i]);
		ck_assert(job_world_has(&w, "data/a"));
	}
}
END_TEST

START_TEST(test_recover_goes_on_withdrawing)
{
	uint64_t id = held();

	restart_as(id, JOB_PAUSED, JOB_ACCEPTED);
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_CANCELLED);
	ck_assert_ptr_nonnull(strstr(w.message, "withdrawn: its client"));
	ck_assert(job_world_has(&w, "data/a"));
}
END_TEST

/* Which names were moved is not on record: staging itself tells. */
static void unmark(struct store *s, uint64_t id)
{
	static const struct lasting_identity none;

	change(s, id);
	ck_assert_int_eq(store_entries_set(s, id, 1, 1, ENTRY_WAITING), 0);
	ck_assert_int_eq(store_job_staged(s, id, &none), 0);
}

START_TEST(test_recover_lists_staging_of_what_was_accepted)
{
	uint64_t id = held();

	state = JOB_ACCEPTED;
	resume = JOB_QUEUED;
	job_world_restart(&w, unmark, id);
	ck_assert_int_eq(job_world_job(&w, id)->phase, PHASE_LISTING);
	job_world_until(&w, job_world_job(&w, id)->phase == PHASE_HELD);
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	ck_assert(job_world_has(&w, "data/a"));
}
END_TEST

/* The same where the state was recorded, and what came before it was not. */
START_TEST(test_recover_lists_staging_of_what_is_not_marked)
{
	uint64_t id = held();

	state = JOB_QUEUED;
	resume = JOB_QUEUED;
	job_world_restart(&w, unmark, id);
	ck_assert_int_lt(job_world_job(&w, id)->unmarked, 0);
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	ck_assert(job_world_has(&w, "data/a"));
}
END_TEST

static void add_incomplete(struct store *s, uint64_t id)
{
	struct job_record r = { .state = JOB_ACCEPTED,
				.resume_state = JOB_QUEUED,
				.origin = "submit",
				.path = "",
				.mount = "",
				.staging = "",
				.inplace = "",
				.message = "",
				.strategy = "" };

	(void)id;
	ck_assert_int_eq(store_job_add(s, &r, &w.id), 0);
}

static int no_job(const struct job_record *r, void *userdata)
{
	(void)r;
	(void)userdata;
	ck_abort_msg("it is on record");
	return 0;
}

static void expect_none(struct store *s, uint64_t id)
{
	ck_assert_int_eq(store_job_get(s, id, no_job, NULL), -ENOENT);
}

START_TEST(test_recover_forgets_an_incomplete_record)
{
	job_world_restart(&w, add_incomplete, 0);
	ck_assert_ptr_null(job_world_job(&w, w.id));
	job_world_restart(&w, expect_none, w.id);
}
END_TEST

/* Empty ones go; others are kept, and told of. */
START_TEST(test_recover_orphans_keeps_what_is_not_empty)
{
	uint64_t id = held();
	char dir[256], other[300];

	(void)snprintf(dir, sizeof(dir), "%s", job_world_staged(&w, id));
	*strrchr(dir, '/') = '\0';
	for (const char *const *name = (const char *const[]){ "empty", "full", NULL }; *name;
	     name++) {
		(void)snprintf(other, sizeof(other), "%s/../%s", dir, *name);
		ck_assert_int_eq(mkdir(other, 0700), 0);
		ck_assert_int_eq(chown(other, 65534, 65534), 0);
	}
	file_make(other, "1", "kept");
	recover_orphans(&w.jobs);
	job_world_until(&w, w.context.flows == 0);
	ck_assert_uint_eq(w.jobs.orphans, 1);
	ck_assert(job_world_has(&w, ".reclaim/65534/full/1"));
	ck_assert(!job_world_has(&w, ".reclaim/65534/empty"));
	ck_assert_int_eq(access(job_world_staged(&w, id), F_OK), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_recover_holds_what_was_held,
		test_recover_leaves_what_pauses,
		test_recover_goes_on_putting_back,
		test_recover_goes_on_withdrawing,
		test_recover_lists_staging_of_what_was_accepted,
		test_recover_lists_staging_of_what_is_not_marked,
		test_recover_forgets_an_incomplete_record,
		test_recover_orphans_keeps_what_is_not_empty,
	};

	return job_world_run("job-recover", &w, tests, ELEMENTSOF(tests));
}
