/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names going back (src/daemon/jobs/job-restore.c): never over anything, into no other directory,
 * and nothing that is not what was moved; what cannot go back is kept, and the job says so. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job-world.h"

static struct job_world w;

static uint64_t held_name(const char *name, const char *text)
{
	uint64_t id;

	file_make(w.mount, name, text);
	id = job_world_submit(&w, name, HOUR_USEC);
	ck_assert_msg(id > 0, "%s", w.failure.text.line);
	ck_assert(!job_world_has(&w, name));
	ck_assert_int_eq(access(job_world_staged(&w, id), F_OK), 0);
	return id;
}

static uint64_t held(const char *text)
{
	return held_name("data/a", text);
}

static const char *content(const char *path)
{
	static char text[64];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	ck_assert_int_eq(close(fd), 0);
	return text;
}

START_TEST(test_restore_puts_back_where_it_was)
{
	uint64_t id = held("old");

	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	ck_assert_str_eq(content(job_world_path(&w, "data/a")), "old");
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_RESTORED);
}
END_TEST

START_TEST(test_restore_puts_into_another_directory)
{
	struct restore_target to = { .name = "b", .view_fd = -1 };
	uint64_t id = held("old");

	ck_assert_int_eq(mkdir(job_world_path(&w, "other"), 0777), 0);
	ck_assert_int_eq(chmod(job_world_path(&w, "other"), 0777), 0);
	to.fd = open(job_world_path(&w, "other"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(to.fd, 0);
	job_world_control_begin(&w, CONTROL_RESTORE, id, &to);
	ck_assert_int_eq(close(to.fd), 0); /* it has its own */
	job_world_until(&w, w.answered);
	ck_assert_int_eq(w.failure.cause, ERROR_NONE);
	ck_assert_str_eq(content(job_world_path(&w, "other/b")), "old");
}
END_TEST

/* It is held as before: nothing of it is deleted, and it can be asked for again. */
START_TEST(test_restore_never_replaces_what_is_there)
{
	uint64_t id = held("old");

	file_make(w.mount, "data/a", "new");
	ck_assert_int_ne(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	ck_assert_str_eq(content(job_world_path(&w, "data/a")), "new");
	ck_assert_str_eq(content(job_world_staged(&w, id)), "old");
	ck_assert_int_eq(job_world_job(&w, id)->r.state, JOB_HELD);
	ck_assert_ptr_nonnull(strstr(job_world_job(&w, id)->r.message, "could not be put back"));
	ck_assert_int_eq(unlink(job_world_path(&w, "data/a")), 0);
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	ck_assert_str_eq(content(job_world_path(&w, "data/a")), "old");
}
END_TEST

static void expect_lost(uint64_t id)
{
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NO_SUCH_PATH);
	ck_assert_ptr_nonnull(strstr(w.failure.text.line, "data/a"));
	ck_assert_ptr_null(strstr(w.failure.text.line, "--to"));
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_FAILED);
	ck_assert(!job_world_has(&w, "data/a"));
}

START_TEST(test_restore_refuses_changed_identity)
{
	uint64_t id = held("old");
	char staged[512];

	(void)snprintf(staged, sizeof(staged), "%s", job_world_staged(&w, id));
	/* The first stays: its inode must not be used again. */
	ck_assert_int_eq(rename(staged, job_world_path(&w, "first")), 0);
	file_make("/", staged, "other");
	expect_lost(id);
	ck_assert_str_eq(content(staged), "other");
}
END_TEST

START_TEST(test_restore_reports_what_was_removed)
{
	uint64_t id = held("old");

	ck_assert_int_eq(unlink(job_world_staged(&w, id)), 0);
	expect_lost(id);
}
END_TEST

START_TEST(test_restore_reports_a_staging_area_that_was_renamed)
{
	uint64_t id = held("old");

	ck_assert_int_eq(rename(job_world_path(&w, ".reclaim"), job_world_path(&w, "away")), 0);
	expect_lost(id);
}
END_TEST

START_TEST(test_restore_refuses_another_directory)
{
	uint64_t id = held("old");

	ck_assert_int_eq(rename(job_world_path(&w, "data"), job_world_path(&w, "moved")), 0);
	ck_assert_int_eq(mkdir(job_world_path(&w, "data"), 0777), 0);
	ck_assert_int_eq(chmod(job_world_path(&w, "data"), 0777), 0);
	ck_assert_int_ne(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	ck_assert(!job_world_has(&w, "data/a"));
	ck_assert_str_eq(content(job_world_staged(&w, id)), "old");
	/* Where it was is there again. */
	ck_assert_int_eq(rmdir(job_world_path(&w, "data")), 0);
	ck_assert_int_eq(rename(job_world_path(&w, "moved"), job_world_path(&w, "data")), 0);
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	ck_assert_str_eq(content(job_world_path(&w, "data/a")), "old");
}
END_TEST

/* What is in its place counts as back, whoever has put it there. */
START_TEST(test_restore_takes_a_fetched_name_for_back)
{
	uint64_t id = held("old");

	ck_assert_int_eq(rename(job_world_staged(&w, id), job_world_path(&w, "data/a")), 0);
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	job_world_wait_finished(&w, id);
	ck_assert_int_eq(w.state, JOB_RESTORED);
	ck_assert_str_eq(content(job_world_path(&w, "data/a")), "old");
}
END_TEST

/* It dies with the request, which another one does. */
START_TEST(test_restore_goes_on_after_its_worker_died)
{
	uint64_t id = held("old");
	const struct intake *i = LIST_FIRST(&job_world_job(&w, id)->submitter->intakes);

	ck_assert_uint_gt(job_world_signal_users(SIGSTOP), 0);
	job_world_control_begin(&w, CONTROL_RESTORE, id, NULL);
	job_world_until(&w, worker_busy(i->worker) > 0);
	(void)job_world_signal_users(SIGKILL);
	job_world_until(&w, w.answered);
	ck_assert_int_eq(w.failure.cause, ERROR_NONE);
	ck_assert_str_eq(content(job_world_path(&w, "data/a")), "old");
}
END_TEST

/* Both are asked for, and answered by the worker only once another mount is there. */
static void two_in_what_was_detached(uint64_t ids[2])
{
	const struct intake *i;

	ids[0] = held_name("data/a", "first");
	ids[1] = held_name("data/b", "second");
	i = LIST_FIRST(&job_world_job(&w, ids[0])->submitter->intakes);
	ck_assert_uint_gt(job_world_signal_users(SIGSTOP), 0);
	for (size_t n = 0; n < 2; n++)
		job_world_control_begin(&w, CONTROL_CANCEL, ids[n], NULL);
	job_world_until(&w, worker_busy(i->worker) == 2);
	job_world_mount_again(&w);
}

static void both_are_back(const uint64_t ids[2])
{
	job_world_until(&w, !job_world_job(&w, ids[0]) && !job_world_job(&w, ids[1]));
	ck_assert_str_eq(content(job_world_path(&w, "data/a")), "first");
	ck_assert_str_eq(content(job_world_path(&w, "data/b")), "second");
}

/* Neither keeps the other from what is opened anew. */
START_TEST(test_restore_two_whose_mount_is_another)
{
	uint64_t ids[2];

	two_in_what_was_detached(ids);
	(void)job_world_signal_users(SIGCONT);
	both_are_back(ids);
}
END_TEST

START_TEST(test_restore_two_whose_mount_is_another_and_whose_worker_died)
{
	uint64_t ids[2];

	two_in_what_was_detached(ids);
	(void)job_world_signal_users(SIGKILL);
	both_are_back(ids);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_restore_puts_back_where_it_was,
		test_restore_puts_into_another_directory,
		test_restore_never_replaces_what_is_there,
		test_restore_refuses_changed_identity,
		test_restore_reports_what_was_removed,
		test_restore_reports_a_staging_area_that_was_renamed,
		test_restore_refuses_another_directory,
		test_restore_takes_a_fetched_name_for_back,
		test_restore_goes_on_after_its_worker_died,
		test_restore_two_whose_mount_is_another,
		test_restore_two_whose_mount_is_another_and_whose_worker_died,
	};

	return job_world_run("job-restore", &w, tests, ELEMENTSOF(tests));
}
