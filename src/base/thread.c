/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "thread.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
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

/* So many threads may be asked for. */
#define EACH_MOST 16

struct each {
	_Atomic size_t next;
	size_t n;
	void (*each)(size_t i, void *userdata);
	void *userdata;
};

static void *each_main(void *userdata)
{
	struct each *e = userdata;
	size_t i;

	while ((i = atomic_fetch_add(&e->next, 1)) < e->n)
		e->each(i, e->userdata);
	return NULL;
}

void thread_each(size_t n, unsigned threads, void (*each)(size_t i, void *userdata), void *userdata)
{
	struct each e = { .n = n, .each = each, .userdata = userdata };
	size_t most = MIN(MIN(n, (size_t)threads), (size_t)EACH_MOST), started = 0;
	pthread_t others[EACH_MOST] = { 0 };

	while (started + 1 < most && thread_start(&others[started], each_main, &e) == 0)
		started++;
	(void)each_main(&e);
	for (size_t i = 0; i < started; i++)
		(void)pthread_join(others[i], NULL);
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
