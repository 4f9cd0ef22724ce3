/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "thread.h"

#include <signal.h>
#include <time.h>

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
