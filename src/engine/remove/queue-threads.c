/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "batch-work.h"
#include "engine/core/tasks.h"
#include "engine/core/engine-job.h"
#include "queue.h"

struct queue_threads {
	struct queue q;
	struct engine_job *job;
	struct batch *submitted;
};

static void submit(struct queue *q, struct batch *b)
{
	struct queue_threads *t = (struct queue_threads *)q;

	assert(!t->submitted);
	t->submitted = b;
}

static struct batch *wait_one(struct queue *q)
{
	struct queue_threads *t = (struct queue_threads *)q;
	struct batch *b = t->submitted;

	t->submitted = NULL;
	if (!b)
		return NULL;
	batch_work(b);
	tasks_settle(t->job->tasks, b);
	return b;
}

static void threads_free(struct queue *q)
{
	free(q);
}

int queue_threads_new(struct queue **ret, struct engine_job *j)
{
	static const struct queue_ops ops = { submit, wait_one, threads_free };
	struct queue_threads *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->q.ops = &ops;
	t->job = j;
	*ret = &t->q;
	return 0;
}
