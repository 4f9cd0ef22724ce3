/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads that work for the one with the event loop. */
#pragma once

#include <pthread.h>

/* Starts a thread that takes no signals: they are for the one that waits for them. Returns 0 or a
 * negative errno. */
int thread_start(pthread_t *ret, void *(*thread_main)(void *userdata), void *userdata);
