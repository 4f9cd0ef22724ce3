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

static void end(struct fixture *f)
{
	f->c = canary_free(f->c);
	ck_assert_ptr_null(f->c);
	(void)close(f->fd);
	scratch_remove(f->dir);
}

/* Waits until so many have ended. */
static void wait_for(struct fixture *f, uint64_t count)
{
	uint64_t began = now_usec();

	for (;;) {
		canary_sample(f->c, &f->s);
		if (f->s.count + f->s.failures >= count)
			return;
		ck_assert_uint_lt(now_usec() - began, PATIENCE_USEC);
		(void)poll(NULL, 0, 5);
	}
}

START_TEST(silent_until_enabled)
{
	struct fixture f;

	begin(&f);
	canary_poke(f.c);
	(void)poll(NULL, 0, 50);
	canary_sample(f.c, &f.s);
	ck_assert_uint_eq(f.s.count, 0);
	ck_assert_uint_eq(f.s.started_usec, 0);
	ck_assert_uint_eq(f.s.ended_usec, 0);
	canary_enable(f.c, true);
	wait_for(&f, 1);
	ck_assert_int_eq(f.s.error, 0);
	ck_assert_uint_gt(f.s.ended_usec, 0);
	ck_assert_uint_le(f.s.ended_usec, now_usec());
	end(&f);
}
END_TEST

START_TEST(once_a_second)
{
	uint64_t first;
	struct fixture f;

	begin(&f);
	canary_enable(f.c, true);
	wait_for(&f, 1);
	first = f.s.ended_usec - f.s.last_usec;
	wait_for(&f, 2);
	ck_assert_uint_ge(f.s.ended_usec - f.s.last_usec - first, USEC_PER_SEC);
	end(&f);
}
END_TEST

START_TEST(poked_five_times_a_second_at_most)
{
	uint64_t first;
	struct fixture f;

	begin(&f);
	canary_enable(f.c, true);
	wait_for(&f, 1);
	first = f.s.ended_usec - f.s.last_usec;
	for (uint64_t i = 2; i <= 4; i++) {
		canary_poke(f.c);
		canary_poke(f.c);
		wait_for(&f, i);
		ck_assert_uint_ge(f.s.ended_usec - f.s.last_usec - first,
				  (i - 1) * USEC_PER_SEC / 5);
	}
	/* But sooner than unasked. */
	ck_assert_uint_lt(f.s.ended_usec - f.s.last_usec - first, 3 * USEC_PER_SEC);
	end(&f);
}
END_TEST

START_TEST(disabled_again)
{
	uint64_t count;
	struct fixture f;

	begin(&f);
	canary_enable(f.c, true);
	wait_for(&f, 1);
	canary_enable(f.c, false);
	canary_sample(f.c, &f.s);
	count = f.s.count;
	canary_poke(f.c);
	(void)poll(NULL, 0, 300);
	canary_sample(f.c, &f.s);
	ck_assert_uint_eq(f.s.count, count);
	end(&f);
}
END_TEST

START_TEST(leaves_no_name)
{
	struct fixture f;

	begin(&f);
	canary_enable(f.c, true);
	wait_for(&f, 1);
	ck_assert_uint_eq(tree_count(f.dir), 0);
	end(&f);
}
END_TEST

START_TEST(freed_at_any_time)
{
	struct fixture f;

	for (int i = 0; i < 50; i++) {
		begin(&f);
		canary_enable(f.c, true);
		(void)poll(NULL, 0, i % 3);
		end(&f);
	}
	ck_assert_ptr_null(canary_free(NULL));
}
END_TEST

START_TEST(where_it_cannot_be)
{
	struct fixture f = { .fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	struct canary *none = NULL;

	ck_assert_int_eq(canary_new(&f.c, f.fd), 0);
	canary_enable(f.c, true);
	wait_for(&f, 1);
	ck_assert_int_eq(f.s.error, -EOPNOTSUPP);
	ck_assert_uint_eq(f.s.count, 0);
	canary_poke(f.c);
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
	uint64_t began = now_usec();
	struct fixture f;
	pid_t pid;

	begin(&f);
	pid = its_process();
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD), 0);
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	canary_enable(f.c, true);
	stop_in_sync(pid);
	canary_sample(f.c, &f.s);
	ck_assert_uint_gt(f.s.started_usec, 0);
	ck_assert(!f.s.gone);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	do {
		ck_assert_uint_lt(now_usec() - began, PATIENCE_USEC);
		(void)poll(NULL, 0, 5);
		canary_sample(f.c, &f.s);
	} while (f.s.started_usec > 0);
	ck_assert(f.s.gone);
	ck_assert_int_eq(f.s.error, -EPIPE);
	ck_assert_uint_eq(f.s.failures, 1);
	ck_assert_uint_eq(f.s.count, 0);
	/* It stays so, and is told of once. */
	canary_poke(f.c);
	canary_enable(f.c, false);
	canary_sample(f.c, &f.s);
	ck_assert_uint_eq(f.s.failures, 1);
	end(&f);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { silent_until_enabled,
				 once_a_second,
				 poked_five_times_a_second_at_most,
				 disabled_again,
				 leaves_no_name,
				 freed_at_any_time,
				 where_it_cannot_be,
				 test_fault_14_killed_in_mid_sync };

	return run_case("canary", tests, sizeof(tests) / sizeof(tests[0]));
}
