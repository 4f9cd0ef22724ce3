/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The lanes' state, shared by lanes.c (which walker goes on), lane-threads.c (the threads that
 * work) and lanes-run.c (the caller's thread, which starts and tunes them). */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine/core/engine-job.h"
#include "engine/core/tasks.h"
#include "engine/remove/queue.h"
#include "engine/walk/walker.h"
#include "gauge.h"
#include "tuner.h"

struct lanes;

struct lane_thread {
	struct lanes *lanes;
	pthread_t thread;
	unsigned index;
};

struct parked {
	struct parked *next;
	struct walker *walker;
	struct batch *batch; /* to be performed next, or NULL */
};

struct lanes {
	struct engine_job *job;
	struct tasks tasks;   /* its lock is for all of this, too */
	pthread_cond_t ended; /* for the caller of lanes_run alone */
	struct parked *parked;
	unsigned n_walkers; /* at work or parked */
	bool done;
	bool ring_tried;
	_Atomic int ring_error; /* why there is no ring */
	struct walker *spare;   /* walkers without a task, to be used again */
	struct lane_thread *threads;
	gauge_t *gauges; /* one for each thread */
	unsigned n_threads, max_threads, cpus;
};

/* Claims a walker that has something to do: a parked one, or a new one on the next task. *ret_batch
 * is its batch if it was parked with one. NULL if there is none. Lock held. */
struct walker *lanes_claim(struct lanes *l, struct batch **ret_batch);

/* A walker's task is done. */
void lanes_release(struct lanes *l, struct walker *w);

/* Puts a walker aside for another thread. If memory is out it is driven to its end right here. */
void lanes_park(struct lanes *l, struct queue *q, struct walker *w, struct batch *b);

/* lane-threads.c */

/* Starts the threads that a setting needs. Returns 0 if at least one runs. */
int lane_threads_start(struct lanes *l, struct setting s);
