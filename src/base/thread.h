/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads that work for the one with the event loop. */
#pragma once

#include <pthread.h>
#include <stdint.h>

/* Starts a thread that takes no signals: they are for the one that waits for them. Returns 0 or a
 * negative errno. */
int thread_start(pthread_t *ret, void *(*thread_main)(void *userdata), void *userdata);

/* Waits for the condition, or until so many microseconds of CLOCK_MONOTONIC, as now_usec has them.
 */
void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_usec);

/* From now on the calling thread, and those that it starts, take no processor from a thread that
 * runs, and leave theirs at once to a thread that wakes up: that may be the one which finishes a
 * foreground request. The share of processors stays the same, and so do locks' holders' chances to
 * go on, which with a lower priority they would not. Where the kernel does not let us, all stays as
 * it was. */
void courtesy_show(void);
