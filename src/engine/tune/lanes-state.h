/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The crew's state, shared by lanes.c (tasks, walkers put aside, help), lane-threads.c (the threads
 * that work) and lanes-run.c (the caller's thread, which starts and tunes them). */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "lanes.h"
#include "gauge.h"
#include "tuner.h"

struct queue;

struct driver {
	struct crew *crew;
	pthread_t thread;
	unsigned index;
};

struct parked {
	struct parked *next;
	struct walker *walker;
	struct batch *batch; /* to be performed next, or NULL */
};

struct crew {
	struct job *job;
	pthread_mutex_t lock;
	pthread_cond_t wake;  /* work, a new setting, the end, or a batch without helpers */
	pthread_cond_t ended; /* for the caller of crew_run alone */
	pthread_cond_t turn;  /* an operation has ended, or there may be more; with turns_lock */
	pthread_mutex_t turns_lock;
	unsigned turns; /* operations under way */
	struct task *tasks, **tasks_tail;
	struct parked *parked;
	struct batch *wanted;     /* batches that want help */
	_Atomic unsigned n_tasks; /* queued and not taken */
	_Atomic unsigned idle;    /* lanes of active drivers without a walker */
	unsigned n_walkers;       /* at work or parked */
	_Atomic unsigned setting; /* packed: backend and lanes */
	bool done;
	bool ring_tried;
	_Atomic int ring_error; /* why there is no ring */
	struct walker *spare;   /* walkers without a task, to be used again */
	struct driver *drivers;
	gauge_t *gauges; /* one per driver */
	unsigned n_drivers, max_drivers, cpus;
};

/* The CPUs that this process may use. */
unsigned crew_cpus(void);

/* Backend and lanes in one word, so that it is changed at once. */
unsigned setting_pack(struct setting s);
struct setting crew_setting_now(const struct crew *c);

/* Works on somebody else's batch, if one wants help. Called and returns with the lock held. */
bool crew_help(struct crew *c);

/* Takes a walker that has something to do: a parked one, or a new one on the next task. *ret_batch
 * is its batch if it was parked with one. Lock held. */
struct walker *crew_take(struct crew *c, struct batch **ret_batch);

/* A walker's task is done. */
void crew_release(struct crew *c, struct walker *w);

/* Puts a walker aside for another driver. If memory is out it is driven to its end right here. */
void crew_park(struct crew *c, struct queue *q, struct walker *w, struct batch *b);

/* lane-threads.c */

/* Starts the drivers that a setting needs. Returns 0 if at least one runs. */
int drivers_start(struct crew *c, struct setting s);
