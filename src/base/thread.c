/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "thread.h"

#include <signal.h>

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
