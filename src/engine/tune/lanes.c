/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lanes.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/core/batch.h"
#include "lanes-state.h"
#include "engine/core/engine-job.h"
#include "engine/walk/node.h"
#include "engine/remove/queue.h"
#include "base/macros.h"
#include "engine/walk/walker.h"

/* The CPUs that this process may use. */
static unsigned cpus_allowed(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (unsigned)MAX(CPU_COUNT(&set), 1);
	/* There are more than fit in. */
	return (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

/* What a job begins with, as far as is known before it has been seen. */
static struct setting setting_start(const struct engine_job *j, unsigned cpus)
{
	const struct fs_profile *w = &j->profile;
	unsigned lanes = w->lanes ? w->lanes : cpus;

	/* What an operation takes alone has to be seen first. */
	if (w->server && j->o.op_latency_usec)
		lanes = 1;
	return (struct setting){ .backend = j->o.fixed_backend ? j->o.backend : w->start,
				 .lanes = j->o.lanes ? j->o.lanes : MIN(lanes, w->lanes_max) };
}

int lanes_new(struct lanes **ret, struct engine_job *j)
{
	struct lanes *l = calloc(1, sizeof(*l));
	pthread_condattr_t attr;

	if (!l)
		return -ENOMEM;
	l->job = j;
	l->cpus = cpus_allowed();
	l->max_threads = j->profile.lanes_max;
	l->threads = calloc(l->max_threads, sizeof(*l->threads));
	l->gauges = malloc(l->max_threads * sizeof(*l->gauges));
	if (!l->threads || !l->gauges) {
		free(l->threads);
		free(l->gauges);
		free(l);
		return -ENOMEM;
	}
	memset(l->gauges, -1, l->max_threads * sizeof(*l->gauges));
	tasks_init(&l->tasks, j, setting_start(j, l->cpus), l->max_threads);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->ended, &attr);
	pthread_condattr_destroy(&attr);
	j->tasks = &l->tasks;
	*ret = l;
	return 0;
}

struct lanes *lanes_free(struct lanes *l)
{
	struct task *t;

	if (!l)
		return NULL;
	while ((t = tasks_take(&l->tasks))) {
		if (t->roots)
			dirlist_done(t->roots);
		free(t->roots);
		atomic_store(&t->node->failed, true);
		node_put(l->job, t->node);
		free(t);
	}
	while (l->spare) {
		struct walker *w = l->spare;

		l->spare = walker_unlink(w);
		walker_free(w);
	}
	tasks_done(&l->tasks);
	pthread_cond_destroy(&l->ended);
	free(l->threads);
	free(l->gauges);
	free(l);
	return NULL;
}

struct walker *lanes_claim(struct lanes *l, struct batch **ret_batch)
{
	struct parked *p = l->parked;
	struct walker *w;

	*ret_batch = NULL;
	if (p) {
		l->parked = p->next;
		w = p->walker;
		*ret_batch = p->batch;
		free(p);
		return w;
	}
	if (!l->tasks.first)
		return NULL;
	w = l->spare;
	if (w)
		l->spare = walker_unlink(w);
	else if (walker_new(&w, l->job) < 0)
		return NULL;
	walker_begin(w, tasks_take(&l->tasks));
	l->n_walkers++;
	return w;
}

void lanes_release(struct lanes *l, struct walker *w)
{
	pthread_mutex_lock(&l->tasks.lock);
	walker_link(w, l->spare);
	l->spare = w;
	assert(l->n_walkers > 0 && !l->done);
	l->n_walkers--;
	if (l->n_walkers == 0 && !l->tasks.first) {
		l->done = true;
		pthread_cond_broadcast(&l->tasks.wake);
		pthread_cond_broadcast(&l->ended);
	}
	pthread_mutex_unlock(&l->tasks.lock);
}

void lanes_park(struct lanes *l, struct queue *q, struct walker *w, struct batch *b)
{
	struct parked *p = malloc(sizeof(*p));

	if (p) {
		pthread_mutex_lock(&l->tasks.lock);
		*p = (struct parked){ .next = l->parked, .walker = w, .batch = b };
		l->parked = p;
		pthread_cond_broadcast(&l->tasks.wake);
		pthread_mutex_unlock(&l->tasks.lock);
		return;
	}
	for (; b; b = walker_step(w)) {
		queue_submit(q, b);
		(void)queue_wait(q);
	}
	lanes_release(l, w);
}
