/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a run makes of a job (src/daemon/jobs/job-run.c): done, with errors, interrupted, waiting
 * for a mount or for a person. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "daemon/jobs/job-run.h"
#include "daemon/jobs/schedule.h"
#include "job-world.h"

static struct job_world w;

/* It waits, as everything pauses. */
static uint64_t queued(const char *name)
{
	uint64_t id;

	w.jobs.paused = true;
	id = job_world_submit(&w, name, 0);
	ck_assert_msg(id > 0, "%s", w.failure.text.line);
	ck_assert_int_eq(job_world_job(&w, id)->phase, PHASE_QUEUED);
	job_world_until(&w, !w.jobs.at_hand.job); /* the schedule has been gone through */
	return id;
}

static void on_all(int r, void *userdata)
{
	(void)userdata;
	ck_assert_int_ge(r, 0);
}

static void go_on(void)
{
	ck_assert_int_eq(jobs_pause_all(&w.jobs, false, on_all, NULL), 0);
}

START_TEST(test_run_deletes_and_is_done)
{
	uint64_t id;

	tree_make(w.mount, "data/t/ data/t/a data/t/d/ data/t/d/b");
	ck_assert_int_eq(chown(job_world_path(&w, "data/t"), 65534, 65534), 0);
	ck_assert_int_eq(chown(job_world_path(&w, "data/t/d"), 65534, 65534), 0);
	id = job_world_submit(&w, "data/t", 0);
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_DONE);
	ck_assert_str_eq(w.message, "");
	ck_assert(!job_world_has(&w, "data/t"));
	ck_assert_uint_eq(w.jobs.entries_freed, 4);
	ck_assert_uint_eq(w.jobs.running, 0);
}
END_TEST

START_TEST(test_run_keeps_changed_identity)
{
	const char *staged;
	uint64_t id;

	file_make(w.mount, "data/a", "old");
	id = queued("data/a");
	staged = job_world_staged(&w, id);
	ck_assert_int_eq(rename(staged, job_world_path(&w, "first")), 0);
	file_make("/", staged, "other");
	go_on();
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_FAILED);
	ck_assert_int_eq(access(staged, F_OK), 0);
	ck_assert(!job_world_has(&w, "data/a"));
	ck_assert_ptr_nonnull(strstr(w.message, "could not be deleted"));
	ck_assert_uint_eq(w.jobs.entries_freed, 0);
}
END_TEST

/* What a user may not delete goes back, and the rest is gone. */
START_TEST(test_run_puts_back_what_it_may_not_delete)
{
	uint64_t id;

	tree_make(w.mount, "data/t/ data/t/a data/t/d/ data/t/d/b");
	ck_assert_int_eq(chown(job_world_path(&w, "data/t"), 65534, 65534), 0);
	id = job_world_submit(&w, "data/t", 0);
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_PARTIAL);
	ck_assert(!job_world_has(&w, "data/t/a"));
	ck_assert(job_world_has(&w, "data/t/d/b"));
	ck_assert_ptr_nonnull(strstr(w.message, "what is left is in its place"));
}
END_TEST

START_TEST(test_run_in_place_refuses_another_directory)
{
	uint64_t id;

	w.context.config->staging = false;
	file_make(w.mount, "data/a", "old");
	id = queued("data/a");
	ck_assert(job_world_has(&w, "data/a"));
	ck_assert_int_eq(rename(job_world_path(&w, "data"), job_world_path(&w, "moved")), 0);
	ck_assert_int_eq(mkdir(job_world_path(&w, "data"), 0777), 0);
	ck_assert_int_eq(chmod(job_world_path(&w, "data"), 0777), 0);
	file_make(w.mount, "data/a", "new");
	go_on();
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_FAILED);
	ck_assert(job_world_has(&w, "data/a"));
	ck_assert(job_world_has(&w, "moved/a"));
}
END_TEST

/* The filesystem is the one, so nothing of the job can be there. */
START_TEST(test_run_ends_without_its_staging_directory)
{
	uint64_t id;

	file_make(w.mount, "data/a", "old");
	id = queued("data/a");
	ck_assert_int_eq(rename(job_world_path(&w, ".reclaim"), job_world_path(&w, "away")), 0);
	go_on();
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_DONE);
	ck_assert_uint_eq(w.jobs.bytes_freed, 0);
	ck_assert_uint_eq(w.jobs.entries_freed, 0);
}
END_TEST

static void mounts_changed(void)
{
	context_mounts_changed(&w.context);
	jobs_mounts_changed(&w.jobs);
}

/* Where it is, other names may have its paths meanwhile. */
static void wait_without_its_mount(bool staging)
{
	char other[256];
	uint64_t id;

	w.context.config->staging = staging;
	file_make(w.mount, "data/a", "old");
	id = queued("data/a");
	(void)snprintf(other, sizeof(other), "%s/other", w.dir);
	ck_assert_int_eq(mkdir(other, 0755), 0);
	ck_assert_int_eq(mount(w.mount, other, NULL, MS_BIND, NULL), 0);
	ck_assert_int_eq(umount2(w.mount, MNT_DETACH), 0);
	tree_make(w.mount, "data/ data/a");
	mounts_changed();
	go_on();
	job_world_until(&w, strstr(job_world_job(&w, id)->r.message, "is not mounted"));
	ck_assert_int_eq(job_world_job(&w, id)->phase, PHASE_QUEUED);
	ck_assert_uint_eq(job_world_job(&w, id)->r.errors, 0);
	mounts_changed();
	ck_assert(job_world_job(&w, id)->area->absent);
	ck_assert(job_world_has(&w, "data/a"));
	ck_assert_int_eq(mount(other, w.mount, NULL, MS_BIND, NULL), 0);
	ck_assert_int_eq(umount2(other, 0), 0);
	mounts_changed();
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_DONE);
	ck_assert(!job_world_has(&w, "data/a"));
}

START_TEST(test_run_waits_for_its_mount)
{
	wait_without_its_mount(/* staging= */ true);
}
END_TEST

START_TEST(test_run_in_place_waits_for_its_mount)
{
	wait_without_its_mount(/* staging= */ false);
}
END_TEST

/* Another directory has its name: a person has to look, and nothing is deleted (I7). */
START_TEST(test_run_pauses_where_its_directory_is_another)
{
	char dir[256];
	uint64_t id;

	file_make(w.mount, "data/a", "old");
	id = queued("data/a");
	(void)snprintf(dir, sizeof(dir), "%s", job_world_staged(&w, id));
	*strrchr(dir, '/') = '\0';
	ck_assert_int_eq(rename(dir, job_world_path(&w, "first")), 0);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	ck_assert_int_eq(chown(dir, 65534, 65534), 0);
	file_make(dir, "1", "other");
	go_on();
	job_world_until(&w, job_world_job(&w, id)->r.state == JOB_PAUSED);
	ck_assert_ptr_nonnull(strstr(job_world_job(&w, id)->r.message, "nothing more is done"));
	ck_assert(job_world_has(&w, "first/1"));
	ck_assert_int_eq(access(job_world_staged(&w, id), F_OK), 0);
}
END_TEST

/* The deleter is that of the job before, and is stopped: it dies in the run for certain. */
START_TEST(test_run_is_tried_again_after_its_worker_died)
{
	char dir[256];
	uint64_t id;

	file_make(w.mount, "data/first", "old");
	job_world_wait_finished(&w, job_world_submit(&w, "data/first", 0));
	file_make(w.mount, "data/a", "old");
	id = queued("data/a");
	(void)snprintf(dir, sizeof(dir), "%s", job_world_staged(&w, id));
	*strrchr(dir, '/') = '\0';
	/* Opening it takes a worker, too. */
	at_hand_put(job_world_job(&w, id), open(dir, O_PATH | O_CLOEXEC));
	ck_assert_uint_gt(job_world_signal(&w, SIGSTOP), 2);
	go_on();
	job_world_until(&w, job_world_job(&w, id)->deletes);
	(void)job_world_signal(&w, SIGKILL);
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_DONE);
	ck_assert_uint_ge(w.jobs.interruptions, 1);
	ck_assert_uint_eq(w.jobs.entries_freed, 2);
	ck_assert_uint_eq(w.jobs.running, 0);
}
END_TEST

/* Which names were moved is not on record. */
static void unmark(struct store *s, uint64_t id)
{
	static const struct lasting_identity none;

	ck_assert_int_eq(store_entries_set(s, id, 1, 1, ENTRY_WAITING), 0);
	ck_assert_int_eq(store_job_staged(s, id, &none), 0);
}

/* Staging tells; what is where the name was is another file. */
START_TEST(test_run_lists_staging_of_what_is_not_marked)
{
	uint64_t id;

	file_make(w.mount, "data/a", "old");
	id = queued("data/a");
	file_make(w.mount, "data/a", "new");
	job_world_restart(&w, unmark, id);
	ck_assert_int_lt(job_world_job(&w, id)->unmarked, 0);
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_DONE);
	ck_assert_uint_eq(w.jobs.entries_freed, 1);
	ck_assert(job_world_has(&w, "data/a"));
}
END_TEST

static bool stopped;

static void on_stopped(struct job *j, void *userdata)
{
	(void)userdata;
	ck_assert_ptr_null(j->run);
	ck_assert_int_eq(j->phase, PHASE_LEAVING);
	stopped = true;
	schedule_job(j);
}

/* It is handed over once it belongs to no other part; a second request is refused. */
START_TEST(test_run_stop_hands_the_job_over_once)
{
	struct job *j;
	uint64_t id;

	file_make(w.mount, "data/a", "old");
	id = queued("data/a");
	j = job_world_job(&w, id);
	go_on();
	job_world_until(&w, j->run);
	stopped = false;
	ck_assert_int_eq(run_stop(j, on_stopped, NULL), 0);
	ck_assert_int_eq(run_stop(j, on_stopped, NULL), -EBUSY);
	job_world_until(&w, stopped);
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_DONE);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_run_deletes_and_is_done,
		test_run_keeps_changed_identity,
		test_run_puts_back_what_it_may_not_delete,
		test_run_in_place_refuses_another_directory,
		test_run_ends_without_its_staging_directory,
		test_run_waits_for_its_mount,
		test_run_in_place_waits_for_its_mount,
		test_run_pauses_where_its_directory_is_another,
		test_run_is_tried_again_after_its_worker_died,
		test_run_lists_staging_of_what_is_not_marked,
		test_run_stop_hands_the_job_over_once,
	};

	return job_world_run("job-run", &w, tests, ELEMENTSOF(tests));
}
