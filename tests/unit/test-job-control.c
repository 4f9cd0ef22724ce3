/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What can be asked for a job in which phase, and what it becomes (src/daemon/jobs/job-control.c).
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/jobs/job-rest.h"
#include "daemon/jobs/schedule.h"
#include "job-world.h"
#include "store/store-internal.h"

static struct job_world w;

static uint64_t held(void)
{
	uint64_t id;

	file_make(w.mount, "data/a", "old");
	id = job_world_submit(&w, "data/a", HOUR_USEC);
	ck_assert_msg(id > 0, "%s", w.failure.text.line);
	return id;
}

START_TEST(test_control_cancel_puts_back)
{
	uint64_t id = held();

	ck_assert_int_eq(job_world_control(&w, CONTROL_CANCEL, id), ERROR_NONE);
	ck_assert(job_world_has(&w, "data/a"));
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_CANCELLED);
}
END_TEST

START_TEST(test_control_pause_keeps_the_time_of_undo)
{
	uint64_t id = held();

	ck_assert_int_eq(job_world_control(&w, CONTROL_PAUSE, id), ERROR_NONE);
	ck_assert_int_eq(job_world_job(&w, id)->phase, PHASE_PAUSED);
	ck_assert_int_eq(job_world_control(&w, CONTROL_PAUSE, id), ERROR_NONE);
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESUME, id), ERROR_NONE);
	ck_assert_int_eq(job_world_job(&w, id)->phase, PHASE_HELD);
	ck_assert_int_eq(access(job_world_staged(&w, id), F_OK), 0);
}
END_TEST

START_TEST(test_control_refuses_restore_of_what_deletes)
{
	uint64_t id = held();
	struct job *j = job_world_job(&w, id);

	j->r.started_usec = 1;
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_WRONG_STATE);
	ck_assert_ptr_nonnull(strstr(w.failure.text.line, "has begun to delete"));
	ck_assert_int_eq(j->phase, PHASE_HELD);
	ck_assert(!job_world_has(&w, "data/a"));
}
END_TEST

/* While names go back, nothing else is done with the job. */
START_TEST(test_control_refuses_what_is_being_put_back)
{
	static const enum control_verb verbs[] = { CONTROL_CANCEL, CONTROL_RESTORE, CONTROL_PAUSE,
						   CONTROL_RESUME };
	uint64_t id = held();
	struct failure f;

	job_world_control_begin(&w, CONTROL_CANCEL, id, NULL);
	ck_assert_int_eq(job_world_job(&w, id)->phase, PHASE_RETURNING);
	for (size_t i = 0; i < ELEMENTSOF(verbs); i++) {
		f = (struct failure){ 0 };
		ck_assert(!control_may(verbs[i], job_world_job(&w, id), &f));
		ck_assert_int_eq(f.cause, ERROR_WRONG_STATE);
		ck_assert_ptr_nonnull(strstr(f.text.line, "is being put back"));
	}
	job_world_until(&w, w.answered);
	ck_assert_int_eq(w.failure.cause, ERROR_NONE);
}
END_TEST

static void on_all(int r, void *userdata)
{
	(void)userdata;
	ck_assert_int_ge(r, 0);
}

/* The run is stopped first; a second request is told so. */
START_TEST(test_control_cancel_of_what_runs_stops_it_first)
{
	struct job *j;
	uint64_t id;

	file_make(w.mount, "data/a", "old");
	w.jobs.paused = true;
	id = job_world_submit(&w, "data/a", 0);
	j = job_world_job(&w, id);
	ck_assert_int_eq(jobs_pause_all(&w.jobs, false, on_all, NULL), 0);
	job_world_until(&w, j->phase == PHASE_RUNNING);
	job_world_control_begin(&w, CONTROL_CANCEL, id, NULL);
	ck_assert(!w.answered);
	job_world_control_begin(&w, CONTROL_PAUSE, id, NULL);
	ck_assert(w.answered);
	ck_assert_int_eq(w.failure.cause, ERROR_WRONG_STATE);
	w.answered = false;
	job_world_until(&w, w.answered);
	ck_assert_int_eq(w.failure.cause, ERROR_NONE);
	ck_assert(job_world_has(&w, "data/a"));
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_CANCELLED);
}
END_TEST

START_TEST(test_control_withdraw_puts_back_and_says_why)
{
	uint64_t id = held();
	struct job *j = job_world_job(&w, id);

	control_withdraw(j);
	ck_assert_int_eq(j->r.resume_state, JOB_ACCEPTED); /* what a start goes by */
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_CANCELLED);
	ck_assert_ptr_nonnull(strstr(w.message, "withdrawn: its client"));
	ck_assert(job_world_has(&w, "data/a"));
}
END_TEST

/* What no client waits for is not held, but pauses, where it cannot go back. */
START_TEST(test_control_withdraw_pauses_where_it_cannot_put_back)
{
	uint64_t id = held();

	file_make(w.mount, "data/a", "new");
	control_withdraw(job_world_job(&w, id));
	job_world_until(&w, job_world_job(&w, id)->phase == PHASE_PAUSED);
	ck_assert_int_eq(access(job_world_staged(&w, id), F_OK), 0);
	ck_assert_int_eq(job_world_job(&w, id)->r.resume_state, JOB_QUEUED);
	ck_assert_ptr_nonnull(
		strstr(job_world_job(&w, id)->r.message, "`reclaimctl resume` deletes them"));
}
END_TEST

/* What is asked for is what it is about from then on: after a crash, that is asked for again. */
START_TEST(test_control_restore_of_what_was_withdrawn)
{
	struct restore_target to = { .name = "b", .view_fd = -1 };
	uint64_t id = held();
	struct job *j = job_world_job(&w, id);

	ck_assert_int_eq(job_world_control(&w, CONTROL_PAUSE, id), ERROR_NONE);
	j->r.resume_state = JOB_ACCEPTED; /* as where memory was out */
	to.fd = open(job_world_path(&w, "data"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(to.fd, 0);
	job_world_control_begin(&w, CONTROL_RESTORE, id, &to);
	ck_assert_int_eq(close(to.fd), 0);
	ck_assert_int_eq(j->phase, PHASE_RETURNING);
	ck_assert_int_eq(j->r.resume_state, JOB_QUEUED);
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_RESTORED);
	ck_assert_str_eq(w.message, "");
	ck_assert(job_world_has(&w, "data/b"));
}
END_TEST

struct begun {
	uint64_t ids[3];
	size_t n;
};

static void note_begun(const struct job_record *r, void *userdata)
{
	struct begun *b = userdata;

	/* One may be told of again, while it is flushed and the next one runs. */
	for (size_t i = 0; i < b->n; i++)
		if (b->ids[i] == r->id)
			return;
	if (r->state == JOB_RUNNING && b->n < ELEMENTSOF(b->ids))
		b->ids[b->n++] = r->id;
}

static uint64_t queued(const char *name)
{
	uint64_t id;

	file_make(w.mount, name, "old");
	id = job_world_submit(&w, name, 0);
	ck_assert_int_eq(job_world_job(&w, id)->phase, PHASE_QUEUED);
	return id;
}

/* It waits in the queue of its new priority, behind those that are there; also after a restart. */
START_TEST(test_control_priority_of_what_waits)
{
	static const struct job_change high = { .has_priority = true, .priority = PRIORITY_HIGH };
	static const struct job_change low = { .has_priority = true, .priority = PRIORITY_LOW };
	struct begun begun = { 0 };
	struct listener l = { .job_changed = note_begun, .userdata = &begun };
	uint64_t ids[3];

	w.jobs.paused = true;
	ids[0] = queued("data/a");
	ids[1] = queued("data/b");
	ids[2] = queued("data/c");
	for (size_t i = 3; i-- > 1;)
		ck_assert_int_eq(job_world_change(&w, &high, ids[i]), ERROR_NONE);
	job_world_restart(&w, NULL, 0);
	w.jobs.paused = true;
	ck_assert_int_eq(job_world_job(&w, ids[0])->r.priority, PRIORITY_NORMAL);
	ck_assert_int_eq(job_world_job(&w, ids[1])->r.priority, PRIORITY_HIGH);
	ck_assert_int_eq(job_world_change(&w, &low, ids[1]), ERROR_NONE);
	ck_assert_int_eq(jobs_pause_all(&w.jobs, false, on_all, NULL), 0);
	listener_add(&w.context, &l);
	job_world_until(&w, begun.n == 3);
	listener_remove(&w.context, &l);
	ck_assert_uint_eq(begun.ids[0], ids[2]);
	ck_assert_uint_eq(begun.ids[1], ids[0]);
	ck_assert_uint_eq(begun.ids[2], ids[1]);
	job_world_wait_finished(&w, ids[1]);
}
END_TEST

START_TEST(test_control_deadline_is_on_record)
{
	static const struct job_change soon = { .has_deadline = true, .deadline_usec = 5 };
	static const struct job_change none = { .has_deadline = true };
	uint64_t id = held();

	ck_assert_int_eq(job_world_change(&w, &soon, id), ERROR_NONE);
	job_world_restart(&w, NULL, 0);
	ck_assert_uint_eq(job_world_job(&w, id)->r.by_usec, 5);
	ck_assert_int_eq(job_world_job(&w, id)->r.priority, PRIORITY_NORMAL);
	ck_assert_int_eq(job_world_change(&w, &none, id), ERROR_NONE);
	ck_assert_uint_eq(job_world_job(&w, id)->r.by_usec, 0);
}
END_TEST

START_TEST(test_control_refuses_change_of_what_is_put_back)
{
	uint64_t id = held();
	struct job *j = job_world_job(&w, id);
	struct failure f = { 0 };

	job_world_control_begin(&w, CONTROL_CANCEL, id, NULL);
	ck_assert(!control_may(CONTROL_CHANGE, j, &f));
	ck_assert_int_eq(f.cause, ERROR_WRONG_STATE);
	ck_assert_ptr_nonnull(strstr(f.text.line, "is being put back"));
	job_world_until(&w, w.answered);
}
END_TEST

/* ---- records that cannot be read ---------------------------------------------------------- */

static bool changed;

static int rename_away(struct store *s, void *userdata)
{
	(void)userdata;
	return statement_exec(s, "ALTER TABLE jobs RENAME TO jobs_away");
}

static int rename_back(struct store *s, void *userdata)
{
	(void)userdata;
	return statement_exec(s, "ALTER TABLE jobs_away RENAME TO jobs");
}

static void on_renamed(int r, void *userdata)
{
	(void)userdata;
	ck_assert_int_eq(r, 0);
	changed = true;
}

static void set_readable(bool readable)
{
	changed = false;
	ck_assert_int_eq(store_queue_post(w.context.store, readable ? rename_back : rename_away,
					  on_renamed, NULL),
			 0);
	job_world_until(&w, changed);
}

static struct job_stub *resting(uint64_t id)
{
	struct job_stub *s = job_table_find(&w.jobs.table, id);

	ck_assert_ptr_nonnull(s);
	job_world_until(&w, !s->job);
	return s;
}

static int awake_error;

static void on_awake(int r, struct job_stub *s, void *userdata)
{
	ck_assert_ptr_eq(s, userdata);
	ck_assert_ptr_null(s->job);
	awake_error = r;
}

/* The job stays held, and can be restored later. */
START_TEST(test_attack_65_held_job_whose_record_cannot_be_read)
{
	uint64_t id = held();
	struct job_stub *s = resting(id);

	set_readable(false);
	schedule_withhold(s);
	ck_assert_uint_eq(s->due.index, 0);
	awake_error = 0;
	job_wake(s, on_awake, s);
	job_world_until(&w, awake_error < 0);
	/* A call that could not be done releases the job. */
	schedule_release(s);
	ck_assert_uint_gt(s->due.index, 0);
	ck_assert_int_eq(s->phase, PHASE_HELD);
	ck_assert_ptr_eq(job_table_find(&w.jobs.table, id), s);
	ck_assert(!job_world_has(&w, "data/a"));
	set_readable(true);
	ck_assert_int_eq(access(job_world_staged(&w, id), F_OK), 0);
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	ck_assert(job_world_has(&w, "data/a"));
}
END_TEST

/* The job is held until its record can be read, and then deleted. */
START_TEST(test_attack_65_window_ends_while_the_record_cannot_be_read)
{
	struct job_stub *s;
	uint64_t id, due;

	file_make(w.mount, "data/a", "old");
	id = job_world_submit(&w, "data/a", USEC_PER_SEC);
	s = resting(id);
	due = s->due.usec;
	set_readable(false);
	job_world_until(&w, s->due.index > 0 && s->due.usec > due);
	ck_assert_int_eq(s->phase, PHASE_HELD);
	ck_assert_ptr_null(s->job);
	set_readable(true);
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_DONE);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_control_cancel_puts_back,
		test_control_pause_keeps_the_time_of_undo,
		test_control_refuses_restore_of_what_deletes,
		test_control_refuses_what_is_being_put_back,
		test_control_cancel_of_what_runs_stops_it_first,
		test_control_priority_of_what_waits,
		test_control_deadline_is_on_record,
		test_control_refuses_change_of_what_is_put_back,
		test_control_withdraw_puts_back_and_says_why,
		test_control_withdraw_pauses_where_it_cannot_put_back,
		test_control_restore_of_what_was_withdrawn,
		test_attack_65_held_job_whose_record_cannot_be_read,
		test_attack_65_window_ends_while_the_record_cannot_be_read,
	};

	return job_world_run("job-control", &w, tests, ELEMENTSOF(tests));
}
