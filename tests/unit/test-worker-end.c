/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How workers end: killed, hung, or stopped in the middle of a run. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "base/fd.h"
#include "base/macros.h"
#include "worker-fixture.h"

static struct fixture f;

/* A run that stops before its only name goes. */
static pid_t run_to_gate(int d)
{
	struct run_item item = { .seq = 1, .name = "a" };

	tree_make(f.dir, "d/a");
	ck_assert_int_eq(fixture_look_names(&f, "d", "a", false), 0);
	item.id = f.seen.ids[0];
	ck_assert_int_eq(setenv("RECLAIM_GATE", "unlink:a", 1), 0);
	fixture_start(&f, d);
	ck_assert_int_eq(unsetenv("RECLAIM_GATE"), 0);
	fixture_run_begin(&f, d, &item, 1);
	while (worker_landlock_abi(f.worker) < 0)
		ck_assert_int_ge(sd_event_run(f.event, UINT64_MAX), 0);
	return fixture_gate_wait();
}

START_TEST(a_killed_worker_answers_epipe)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700);
	pid_t pid = run_to_gate(d);

	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	fixture_wait_gone(&f);
	ck_assert_int_eq(f.seen.r, -EPIPE);
	ck_assert_ptr_nonnull(strstr(f.seen.how, "signal 9"));
	ck_assert_uint_eq(worker_busy(f.worker), 0);
	ck_assert_int_eq(worker_forget(f.worker, 1), -EINVAL);
}
END_TEST

/* As one that is being started has for a moment. */
static pid_t process_with_copies(void)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid > 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		(void)pause();
}

START_TEST(a_dead_worker_is_out_of_the_loop)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700);
	pid_t pid = run_to_gate(d), copies = process_with_copies();

	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	fixture_wait_gone(&f);
	fixture_stop(&f);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_ge(sd_event_run(f.event, 0), 0);
	ck_assert_int_eq(kill(copies, SIGKILL), 0);
	ck_assert_int_eq(waitpid(copies, NULL, 0), copies);
}
END_TEST

START_TEST(a_stopped_run_keeps_the_rest)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700);
	bool cancelled = false;

	/* It has one thread that deletes and one that hears the stop, and both wake up at once: the
	 * first may be through with all before the other has its turn. */
	for (unsigned i = 0; i < 100 && !cancelled; i++) {
		pid_t pid;

		fixture_start(&f, -1);
		pid = run_to_gate(d);
		worker_stop(f.worker);
		ck_assert_int_eq(kill(pid, SIGCONT), 0);
		fixture_wait(&f);
		ck_assert_int_eq(f.seen.r, 0);
		cancelled = f.seen.result.cancelled;
		/* The one it was at may have gone. */
		ck_assert_uint_eq(f.seen.kept, fixture_has(&f, "d/a"));
		if (f.seen.kept)
			ck_assert_int_eq(f.seen.kept_error, -ECANCELED);
		ck_assert(cancelled || !f.seen.kept);
	}
	ck_assert(cancelled);
}
END_TEST

/* One that does not answer is freed at once, and killed by its parent-death pipe. */
START_TEST(a_hung_worker_is_not_waited_for)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700);
	pid_t pid = run_to_gate(d);

	fixture_stop(&f);
	ck_assert_int_eq(f.seen.r, -ECANCELED);
	ck_assert(!f.seen.gone);
	while (kill(pid, 0) == 0)
		ck_assert_int_ge(sd_event_run(f.event, UINT64_MAX), 0);
	ck_assert(fixture_has(&f, "d/a"));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		a_killed_worker_answers_epipe,
		a_dead_worker_is_out_of_the_loop,
		a_stopped_run_keeps_the_rest,
		a_hung_worker_is_not_waited_for,
	};

	return fixture_run_case("worker-end", &f, tests, ELEMENTSOF(tests));
}
