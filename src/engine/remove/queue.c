/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* IORING_OP_UNLINKAT always runs on the kernel's worker threads; a ring keeps many directories busy
 * from one thread. Which entries are in flight together is what decides: a directory's lock is
 * exclusive, so workers that meet in one directory only wait for each other. Hence a narrow window
 * for each batch while there are several, and a wide one, with as few workers as the directory
 * bears, when there is one. No linked requests (I9 of SECURITY.md). */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch-work.h"
#include "engine/core/tasks.h"
#include "engine/core/engine-job.h"
#include "queue.h"
#include "ring.h"
#include "base/macros.h"

#define RING_ENTRIES 256
#define WIDE_WINDOW 128

struct slot {
	struct batch *batch;
	size_t removed, tried;
	uint64_t bytes;
};

struct queue {
	struct io_uring ring;
	bool has_ring; /* if not, or not any more: system calls */
	struct slot *slots;
	unsigned n_slots, active, workers;
};

/* Queues one entry of a batch. Returns 1 if it is in flight, 0 if it was done at once. */
static unsigned entry_queue(struct queue *q, unsigned slot, size_t i)
{
	struct slot *s = &q->slots[slot];
	struct batch *b = s->batch;
	struct io_uring_sqe *sqe;
	uint64_t bytes;
	int r = batch_prepare(b, i, NULL, &bytes);

	if (r != 0) {
		b->results[i] = r < 0 ? (uint8_t)-r : 0;
		s->removed += r == 1;
		s->tried++;
		s->bytes += r == 1 ? bytes : 0;
		return 0;
	}
	sqe = io_uring_get_sqe(&q->ring);
	if (!sqe) {
		(void)io_uring_submit(&q->ring);
		sqe = io_uring_get_sqe(&q->ring);
	}
	if (!sqe) {
		b->results[i] = EAGAIN;
		return 0;
	}
	io_uring_prep_unlinkat(sqe, b->dirfd, dirlist_name(b->list, &b->list->v[i]), b->flags);
	io_uring_sqe_set_data64(sqe, (uint64_t)slot << 32 | (uint32_t)i);
	s->bytes += bytes;
	return 1;
}

/* Performs the rest of a batch right here. */
static void work_here(struct batch *b)
{
	batch_work(b);
	tasks_settle(b->job->tasks, b);
}

/* Tops a batch's window up. */
static void slot_fill(struct queue *q, unsigned slot)
{
	struct batch *b = q->slots[slot].batch;
	unsigned window = q->active == 1 ? WIDE_WINDOW : b->job->profile.dir_lanes;

	while (b->in_flight < window) {
		size_t i;
		uint8_t stop;

		if (job_paced(b->job)) {
			if (b->in_flight > 0)
				return;
			/* What others' windows hold was checked a moment ago, and must not wait
			 * until this batch has had its pauses. */
			(void)io_uring_submit(&q->ring);
			work_here(b);
			return;
		}

		if (batch_take(b, 1, &i) == 0)
			return;
		stop = batch_check(b, i);
		if (stop) {
			b->results[i] = stop;
			continue;
		}
		b->in_flight += entry_queue(q, slot, i);
	}
}

void queue_submit(struct queue *q, struct batch *b)
{
	unsigned i = 0, workers;

	while (i + 1 < q->n_slots && q->slots[i].batch)
		i++;
	assert(!q->slots[i].batch && q->active < q->n_slots);
	q->slots[i] = (struct slot){ .batch = b };
	b->in_flight = 0;
	q->active++;
	if (!q->has_ring) {
		work_here(b);
		return;
	}
	/* The kernel may start so many workers and no more: one for each directory that is in
	 * flight. */
	workers = q->active == 1 ? b->job->profile.dir_lanes : q->n_slots;
	if (q->workers != workers &&
	    io_uring_register_iowq_max_workers(&q->ring, (unsigned[]){ workers, workers }) == 0)
		q->workers = workers;
	slot_fill(q, i);
}

static void complete(struct queue *q, const struct io_uring_cqe *cqe)
{
	unsigned slot = (unsigned)(cqe->user_data >> 32);
	size_t i = (uint32_t)cqe->user_data;
	struct slot *s = &q->slots[slot];
	struct batch *b = s->batch;

	assert(slot < q->n_slots && b && i < b->n && b->in_flight > 0);
	/* The kernel's own numbers for an interrupted call begin at 512 and do not fit a result:
	 * the entry was not removed, which is what has to be known. */
	b->results[i] = cqe->res >= 0 ? 0 : -cqe->res < BATCH_PINNED ? (uint8_t)-cqe->res : EINTR;
	s->tried++;
	s->removed += cqe->res == 0;
	b->in_flight--;
	slot_fill(q, slot);
}

static struct batch *find_complete(struct queue *q)
{
	for (unsigned i = 0; i < q->n_slots; i++) {
		struct slot *s = &q->slots[i];
		struct batch *b = s->batch;

		if (!b || b->in_flight > 0 || atomic_load(&b->next) < b->n)
			continue;
		assert(q->active > 0);
		if (s->tried > 0)
			batch_tally(b, s->removed, s->bytes, s->tried);
		s->batch = NULL;
		q->active--;
		return b;
	}
	return NULL;
}

/* The ring itself failed. It is closed first, which waits for everything in flight: a request that
 * came late would find its descriptor's number given to another directory. What it did and what not
 * cannot be told; doing it again with system calls is harmless, because a name that is gone is
 * gone. */
static void fail(struct queue *q)
{
	io_uring_queue_exit(&q->ring);
	q->has_ring = false;
	for (unsigned i = 0; i < q->n_slots; i++) {
		struct batch *b = q->slots[i].batch;

		if (!b)
			continue;
		atomic_store(&b->next, b->first);
		b->in_flight = 0;
		work_here(b);
	}
}

struct batch *queue_wait(struct queue *q)
{
	while (q->active > 0) {
		struct batch *b = find_complete(q);
		struct io_uring_cqe *cqe;
		unsigned head, n = 0;
		int r;

		if (b)
			return b;
		assert(q->has_ring);
		r = io_uring_submit_and_wait(&q->ring, 1);
		if (r < 0 && r != -EINTR && r != -EAGAIN && r != -EBUSY) {
			fail(q);
			continue;
		}
		io_uring_for_each_cqe(&q->ring, head, cqe)
		{
			complete(q, cqe);
			n++;
		}
		io_uring_cq_advance(&q->ring, n);
	}
	return NULL;
}

struct queue *queue_free(struct queue *q)
{
	if (!q)
		return NULL;
	if (q->has_ring)
		io_uring_queue_exit(&q->ring);
	free(q->slots);
	free(q);
	return NULL;
}

bool queue_ring_usable(void)
{
	struct io_uring ring;

	if (ring_new(&ring, RING_ENTRIES, IORING_OP_UNLINKAT) < 0)
		return false;
	io_uring_queue_exit(&ring);
	return true;
}

int queue_new(struct queue **ret, struct setting s)
{
	struct queue *q = calloc(1, sizeof(*q));
	int r = 0;

	if (!q)
		return -ENOMEM;
	q->n_slots = s.backend == BACKEND_URING ? s.lanes : 1;
	q->slots = calloc(q->n_slots, sizeof(*q->slots));
	if (!q->slots)
		r = -ENOMEM;
	else if (s.backend == BACKEND_URING)
		r = ring_new(&q->ring, RING_ENTRIES, IORING_OP_UNLINKAT);
	if (r < 0) {
		queue_free(q);
		return r;
	}
	q->has_ring = s.backend == BACKEND_URING;
	*ret = q;
	return 0;
}
