/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs that wait for a time (src/daemon/jobs/undo-deadline.c): there is room for all, and none is
 * due early, be the clock set while others are. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/jobs/job-submit.h"
#include "daemon/jobs/schedule.h"
#include "daemon/jobs/undo-deadline.h"
#include "job-world.h"

#define NOBODY 65534
#define MANY 300

static struct job_world w;

static int wait_for_reader(struct store *s, void *userdata)
{
	const int *fds = userdata;
	char c;

	(void)s;
	return read(fds[0], &c, 1) == 1 ? 0 : -EIO;
}

static unsigned validated, accepted;

static bool count_validated(const struct entry_record *e, void *userdata)
{
	(void)e;
	(void)userdata;
	validated++;
	return true;
}

static void count_accepted(const struct failure *f, const struct submitted *s, void *userdata)
{
	(void)s;
	(void)userdata;
	ck_assert_msg(!f->cause, "%s", f->text.line);
	accepted++;
}

/* All of them are on their way to the store at the same time. */
START_TEST(test_deadline_has_room_for_many_at_once)
{
	const struct credentials who = { .uid = NOBODY, .gid = NOBODY };
	const struct submit_options o = { .has_undo = true,
					  .undo_usec = HOUR_USEC,
					  .priority = PRIORITY_NORMAL,
					  .is_expected = count_validated };
	const struct job_stub *s;
	int fds[2];

	validated = accepted = 0;
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	ck_assert_int_ge(store_queue_post(w.context.store, wait_for_reader, NULL, fds), 0);
	for (unsigned i = 0; i < MANY; i++) {
		struct intake_group group = { .dirfd = -1, .names_fd = -1 };
		char name[32];

		(void)snprintf(name, sizeof(name), "data/%u", i);
		file_make(w.mount, name, "old");
		group.path = job_world_path(&w, name);
		submit_begin(&w.jobs, &who, -1, &group, 1, &o, count_accepted, NULL);
	}
	job_world_until(&w, validated == MANY);
	ck_assert_uint_eq(accepted, 0);
	ck_assert_int_eq(write(fds[1], "", 1), 1);
	job_world_until(&w, accepted == MANY);
	ck_assert_uint_eq(w.jobs.waiting.n, MANY);
	TAILQ_FOREACH(s, &w.jobs.table.in_order, in_order)
		ck_assert_int_eq(s->job ? s->job->phase : s->phase, PHASE_HELD);
	ck_assert_int_eq(close(fds[0]), 0);
	ck_assert_int_eq(close(fds[1]), 0);
}
END_TEST

#ifdef RECLAIM_TEST_GATES
static uint64_t held(const char *name)
{
	uint64_t id;

	file_make(w.mount, name, "old");
	id = job_world_submit(&w, name, HOUR_USEC);
	ck_assert_msg(id > 0, "%s", w.failure.text.line);
	return id;
}

static uint64_t due;
static void (*on_due)(struct job_stub *s);

static void set_back(struct job_stub *s)
{
	ck_assert_msg(due == 0, "job %d is due early", (int)s->id);
	due = s->id;
	file_make(w.dir, "clock", "-100000000000000"); /* more than three years */
	on_due(s);
}

/* The clock is set between what tells that a job is due and what becomes of it. */
START_TEST(test_deadline_stays_when_the_clock_is_set_back_meanwhile)
{
	uint64_t a = held("data/a"), b = held("data/b");
	uint64_t until = job_world_job(&w, a)->r.held_until_usec;
	char clock[96];
	struct job *j = job_world_job(&w, b);

	(void)snprintf(clock, sizeof(clock), "%s/clock", w.dir);
	ck_assert_int_eq(setenv("RECLAIM_CLOCK", clock, 1), 0);
	due = 0;
	on_due = w.jobs.due;
	w.jobs.due = set_back;
	j->r.held_until_usec = deadline_clock(&w.jobs) + USEC_PER_SEC;
	schedule_job(j);
	ck_assert_int_eq(j->phase, PHASE_HELD);
	job_world_wait_finished(&w, b);
	ck_assert_uint_eq(due, b);
	ck_assert_int_eq(w.state, JOB_DONE);
	ck_assert_int_eq(job_world_job(&w, a)->phase, PHASE_HELD);
	ck_assert_uint_lt(job_world_job(&w, a)->r.held_until_usec, until);
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, a), ERROR_NONE);
	ck_assert(job_world_has(&w, "data/a"));
	ck_assert_int_eq(unsetenv("RECLAIM_CLOCK"), 0);
}
END_TEST
#endif

int main(void)
{
	const TTest *const tests[] = {
		test_deadline_has_room_for_many_at_once,
#ifdef RECLAIM_TEST_GATES
		test_deadline_stays_when_the_clock_is_set_back_meanwhile,
#endif
	};

	return job_world_run("undo-deadline", &w, tests, ELEMENTSOF(tests));
}
