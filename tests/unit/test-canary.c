/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pacing/sensors/canary.h"
#include "support.h"
#include "base/fd.h"

/* Nothing here takes that long, but on a machine that has much else to do. */
#define PATIENCE_USEC (30 * USEC_PER_SEC)

struct fixture {
	char dir[PATH_MAX];
	int fd;
	struct canary *c;
	struct canary_sample s;
};

static void begin(struct fixture *f)
{
	scratch_make(f->dir, sizeof(f->dir));
	f->fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->c = NULL;
	ck_assert_int_eq(canary_new(&f->c, f->fd), 0);
}

/* Until it can be asked. */
static void wait_ready(struct fixture *f)
{
	uint64_t began = now_usec();

	for (canary_sample(f->c, &f->s); !f->s.ready; canary_sample(f->c, &f->s)) {
		ck_assert_uint_lt(now_usec() - began, PATIENCE_USEC);
		ck_assert(!f->s.gone);
		canary_ask(f->c); /* does nothing yet */
		(void)poll(NULL, 0, 1);
		canary_sample(f->c, &f->s);
		ck_assert(!f->s.busy);
	}
}

static void end(struct fixture *f)
{
	f->c = canary_free(f->c);
	ck_assert_ptr_null(f->c);
	(void)close(f->fd);
	scratch_remove(f->dir);
}

/* Waits for the end of one. */
static void wait_for(struct fixture *f)
{
	uint64_t began = now_usec();

	do {
		ck_assert_uint_lt(now_usec() - began, PATIENCE_USEC);
		(void)poll(NULL, 0, 5);
		canary_sample(f->c, &f->s);
	} while (f->s.busy);
}

START_TEST(silent_until_asked)
{
	struct fixture f;

	begin(&f);
	wait_ready(&f);
	(void)poll(NULL, 0, 50);
	canary_sample(f.c, &f.s);
	ck_assert_uint_eq(f.s.count, 0);
	ck_assert(!f.s.busy && !f.s.gone);
	canary_ask(f.c);
	wait_for(&f);
	ck_assert_uint_eq(f.s.count, 1);
	ck_assert_uint_gt(f.s.last_usec, 0);
	/* One for each time. */
	(void)poll(NULL, 0, 300);
	canary_sample(f.c, &f.s);
	ck_assert_uint_eq(f.s.count, 1);
	end(&f);
}
END_TEST

START_TEST(busy_from_the_moment_it_is_asked)
{
	struct fixture f;

	begin(&f);
	wait_ready(&f);
	for (uint64_t i = 1; i <= 3; i++) {
		canary_sample(f.c, &f.s);
		ck_assert(!f.s.busy);
		canary_ask(f.c);
		canary_ask(f.c);
		canary_sample(f.c, &f.s);
		ck_assert(f.s.busy || f.s.count == i);
		wait_for(&f);
		ck_assert_uint_eq(f.s.count, i);
		(void)poll(NULL, 0, 200);
	}
	end(&f);
}
END_TEST

START_TEST(five_times_a_second_at_most)
{
	uint64_t began = now_usec();
	struct fixture f;

	begin(&f);
	wait_ready(&f);
	do {
		canary_ask(f.c);
		wait_for(&f);
		ck_assert(!f.s.gone);
		ck_assert_uint_lt(now_usec() - began, PATIENCE_USEC);
	} while (f.s.count < 4);
	ck_assert_uint_ge(now_usec() - began, 3 * USEC_PER_SEC / 5);
	end(&f);
}
END_TEST

START_TEST(leaves_no_name)
{
	struct fixture f;

	begin(&f);
	wait_ready(&f);
	canary_ask(f.c);
	wait_for(&f);
	ck_assert_uint_eq(tree_count(f.dir), 0);
	end(&f);
}
END_TEST

START_TEST(freed_at_any_time)
{
	struct fixture f;

	for (int i = 0; i < 50; i++) {
		begin(&f);
		canary_ask(f.c);
		(void)poll(NULL, 0, i % 3);
		end(&f);
	}
	ck_assert_ptr_null(canary_free(NULL));
}
END_TEST

/* Waits for the end of its process. */
static void wait_for_end(struct fixture *f)
{
	uint64_t began = now_usec();

	do {
		ck_assert_uint_lt(now_usec() - began, PATIENCE_USEC);
		(void)poll(NULL, 0, 5);
		canary_sample(f->c, &f->s);
	} while (!f->s.gone);
	ck_assert(!f->s.busy);
}

START_TEST(where_it_cannot_be)
{
	struct fixture f = { .fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	struct canary *none = NULL;

	ck_assert_int_eq(canary_new(&f.c, f.fd), 0);
	canary_ask(f.c);
	wait_for_end(&f);
	ck_assert_uint_eq(f.s.count, 0);
	canary_ask(f.c);
	f.c = canary_free(f.c);
	(void)close(f.fd);
	ck_assert_int_eq(canary_new(&none, -1), -EBADF);
	ck_assert_ptr_null(none);
}
END_TEST

/* The newest child: those of the tests before may not all have been reaped. */
static pid_t its_process(void)
{
	char path[64];
	FILE *f;
	int pid = 0, next;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)gettid());
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (fscanf(f, "%d", &next) == 1)
		pid = next;
	ck_assert_int_gt(pid, 0);
	(void)fclose(f);
	return pid;
}

/* Runs it, as its tracer, until it is about to sync. */
static void stop_in_sync(pid_t pid)
{
	struct __ptrace_syscall_info in = { 0 };
	int status;

	for (;;) {
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFSTOPPED(status));
		ck_assert_int_gt(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(in), &in), 0);
		if (in.op == PTRACE_SYSCALL_INFO_ENTRY && in.entry.nr == SYS_fdatasync)
			return;
		ck_assert_int_eq(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
	}
}

/* By the kernel, for want of memory, or by an administrator. */
START_TEST(test_fault_14_killed_in_mid_sync)
{
	struct fixture f;
	pid_t pid;

	begin(&f);
	wait_ready(&f);
	pid = its_process();
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD), 0);
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	canary_ask(f.c);
	stop_in_sync(pid);
	canary_sample(f.c, &f.s);
	ck_assert(f.s.busy && !f.s.gone);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	wait_for_end(&f);
	ck_assert_uint_eq(f.s.count, 0);
	/* It stays so. */
	(void)poll(NULL, 0, 200);
	canary_ask(f.c);
	canary_sample(f.c, &f.s);
	ck_assert(f.s.gone && !f.s.busy);
	end(&f);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { silent_until_asked,
				 busy_from_the_moment_it_is_asked,
				 five_times_a_second_at_most,
				 leaves_no_name,
				 freed_at_any_time,
				 where_it_cannot_be,
				 test_fault_14_killed_in_mid_sync };

	return run_case("canary", tests, sizeof(tests) / sizeof(tests[0]));
}
