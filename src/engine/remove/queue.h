/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The one interface behind which both backends stand: batches go in, the same batches come out,
 * performed. A queue belongs to one thread. */
#pragma once

struct batch;
struct engine_job;
struct queue;

struct queue_ops {
	/* Begins a batch. It is the queue's until queue_wait returns it. Never fails: what goes
	 * wrong is in the batch's results. */
	void (*submit)(struct queue *q, struct batch *b);
	/* Waits for any one batch to be complete. NULL if none was submitted. */
	struct batch *(*wait)(struct queue *q);
	void (*free)(struct queue *q);
};

/* The start of every queue's own struct. */
struct queue {
	const struct queue_ops *ops;
};

/* System calls on the calling thread; other lanes may be asked to help. Returns 0 or -ENOMEM. */
int queue_threads_new(struct queue **ret, struct engine_job *j);

/* One ring, restricted to IORING_OP_UNLINKAT, for up to `lanes` batches at a time. Returns 0,
 * -ENOMEM, or the reason why this kernel or this process may have no ring (-ENOSYS, -EPERM,
 * -EOPNOTSUPP...). */
int queue_uring_new(struct queue **ret, struct engine_job *j, unsigned lanes);

static inline void queue_submit(struct queue *q, struct batch *b)
{
	q->ops->submit(q, b);
}

static inline struct batch *queue_wait(struct queue *q)
{
	return q->ops->wait(q);
}

static inline struct queue *queue_free(struct queue *q)
{
	if (q)
		q->ops->free(q);
	return NULL;
}
