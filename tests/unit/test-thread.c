/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Many calls on several threads. */
#include "base/thread.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "support.h"

#define N 1000
#define TOGETHER 4
#define PATIENCE (60 * USEC_PER_SEC)

static _Atomic unsigned calls[N], under_way, most;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t met = PTHREAD_COND_INITIALIZER;
static unsigned here;

static void count(size_t i, void *userdata)
{
	ck_assert_ptr_eq(userdata, &here);
	calls[i]++;
}

/* The first ones go on when so many are there. */
static void meet(size_t i, void *userdata)
{
	uint64_t until = now_usec() + PATIENCE;

	pthread_mutex_lock(&lock);
	here++;
	pthread_cond_broadcast(&met);
	while (here < TOGETHER && now_usec() < until)
		cond_wait_until(&met, &lock, until);
	ck_assert_uint_ge(here, TOGETHER);
	pthread_mutex_unlock(&lock);
	count(i, userdata);
}

static void watch(size_t i, void *userdata)
{
	unsigned now = atomic_fetch_add(&under_way, 1) + 1;

	if (now > most)
		most = now;
	count(i, userdata);
	atomic_fetch_sub(&under_way, 1);
}

static void expect_calls(size_t n, unsigned each)
{
	for (size_t i = 0; i < N; i++)
		ck_assert_uint_eq(calls[i], i < n ? each : 0);
	for (size_t i = 0; i < N; i++)
		calls[i] = 0;
}

START_TEST(each_is_called_once)
{
	here = 0;
	thread_each(0, 8, count, &here);
	expect_calls(0, 1);
	thread_each(1, 8, count, &here);
	expect_calls(1, 1);
	thread_each(N, 1, count, &here);
	expect_calls(N, 1);
	thread_each(N, 8, count, &here);
	expect_calls(N, 1);
	/* Nothing was asked for: the caller does it all the same. */
	thread_each(N, 0, count, &here);
	expect_calls(N, 1);
}
END_TEST

START_TEST(so_many_are_called_at_a_time)
{
	here = 0;
	thread_each(N, TOGETHER, meet, &here);
	expect_calls(N, 1);
	most = 0;
	thread_each(N, 2, watch, &here);
	ck_assert_uint_le(most, 2);
	expect_calls(N, 1);
	/* More than there ever are. */
	most = 0;
	thread_each(N, 1000, watch, &here);
	ck_assert_uint_le(most, 16);
	expect_calls(N, 1);
}
END_TEST

START_TEST(without_threads_the_caller_does_it)
{
	/* A user that may have no process more; root may. */
	struct rlimit none = { 0, 0 };
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (setrlimit(RLIMIT_NPROC, &none) < 0 ||
		    (getuid() == 0 && setresuid(65534, 65534, 65534) < 0))
			_exit(2);
		most = 0;
		thread_each(N, 8, watch, &here);
		for (size_t i = 0; i < N; i++)
			if (calls[i] != 1)
				_exit(3);
		_exit(most == 1 ? 0 : 4);
	}
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { each_is_called_once, so_many_are_called_at_a_time,
				 without_threads_the_caller_does_it };

	return run_case("thread", tests, ELEMENTSOF(tests));
}
