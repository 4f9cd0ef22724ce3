/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "macros.h"

int thread_start(pthread_t *ret, void *(*thread_main)(void *userdata), void *userdata)
{
	sigset_t all, before;
	int e;

	(void)sigfillset(&all);
	e = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (e != 0)
		return -e;
	e = pthread_create(ret, NULL, thread_main, userdata);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -e;
}

void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_usec)
{
	struct timespec until = { .tv_sec = (time_t)(until_usec / USEC_PER_SEC),
				  .tv_nsec = (long)(until_usec % USEC_PER_SEC * 1000) };

	(void)pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &until);
}

/* The longest there is. A thread with a shorter slice goes first (Linux 6.12; ignored before).
 */
#define SLICE_NSEC (100ULL * 1000 * 1000)

/* The kernel's sched_attr, as it was first: its header and <sched.h> do not go together. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

void courtesy_show(void)
{
	struct attributes attr = { .size = sizeof(attr),
				   .policy = SCHED_BATCH,
				   .runtime = SLICE_NSEC };

	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}
