/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* IORING_OP_UNLINKAT always runs on the kernel's worker threads; a ring keeps many directories busy
 * from one thread. Which entries are in flight together is what decides: a directory's lock is
 * exclusive, so workers that meet in one directory only wait for each other. Hence a narrow window
 * for each batch while there are several, and a wide one, with as few workers as the directory
 * bears, when there is one. No linked requests (SAFETY I9). */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "batch-work.h"
#include "engine/core/tasks.h"
#include "engine/core/engine-job.h"
#include "queue.h"
#include "base/macros.h"

#define RING_ENTRIES 256
#define WIDE_WINDOW 128

struct slot {
	struct batch *batch;
	size_t removed, tried;
	uint64_t bytes;
};

struct queue_uring {
	struct queue q;
	struct engine_job *job;
	struct io_uring ring;
	struct slot *slots;
	unsigned n_slots, active, in_flight, workers;
	bool dead; /* the ring failed and is gone: system calls from now on */
};

static uint64_t request_id(unsigned slot, size_t entry)
{
	return (uint64_t)slot << 32 | (uint32_t)entry;
}

/* The kernel may start so many workers and no more: one for each directory that is in flight. */
static void workers_set(struct queue_uring *u, unsigned n)
{
	unsigned max[2] = { n, n };

	if (u->workers != n && io_uring_register_iowq_max_workers(&u->ring, max) == 0)
		u->workers = n;
}

/* Queues one entry of a batch. Returns 1 if it is in flight, 0 if it was done at once. */
static int entry_queue(struct queue_uring *u, unsigned slot, size_t i)
{
	struct slot *s = &u->slots[slot];
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
	sqe = io_uring_get_sqe(&u->ring);
	if (!sqe) {
		(void)io_uring_submit(&u->ring);
		sqe = io_uring_get_sqe(&u->ring);
	}
	if (!sqe) {
		b->results[i] = EAGAIN;
		return 0;
	}
	io_uring_prep_unlinkat(sqe, b->dirfd, dirlist_name(b->list, &b->list->v[i]), b->flags);
	io_uring_sqe_set_data64(sqe, request_id(slot, i));
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
static void slot_fill(struct queue_uring *u, unsigned slot)
{
	struct batch *b = u->slots[slot].batch;
	unsigned window = u->active == 1 ? WIDE_WINDOW : b->job->profile.dir_lanes;

	while (b->in_flight < window) {
		size_t i;
		uint8_t stop;

		if (job_paced(b->job)) {
			if (b->in_flight > 0)
				return;
			/* What others' windows hold was checked a moment ago, and must not wait
			 * until this batch has had its pauses. */
			(void)io_uring_submit(&u->ring);
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
		if (entry_queue(u, slot, i) == 1) {
			b->in_flight++;
			u->in_flight++;
		}
	}
}

static void submit(struct queue *q, struct batch *b)
{
	struct queue_uring *u = (struct queue_uring *)q;
	unsigned i = 0;

	while (i + 1 < u->n_slots && u->slots[i].batch)
		i++;
	assert(!u->slots[i].batch && u->active < u->n_slots);
	u->slots[i] = (struct slot){ .batch = b };
	b->in_flight = 0;
	u->active++;
	if (u->dead) {
		work_here(b);
		return;
	}
	workers_set(u, u->active == 1 ? b->job->profile.dir_lanes : u->n_slots);
	slot_fill(u, i);
}

static struct batch *slot_finish(struct queue_uring *u, unsigned slot)
{
	struct slot *s = &u->slots[slot];
	struct batch *b = s->batch;

	assert(u->active > 0 && b->in_flight == 0);
	batch_tally(b, s->removed, s->bytes, s->tried);
	s->batch = NULL;
	u->active--;
	return b;
}

/* The kernel's own numbers for an interrupted call begin at 512 and do not fit a result: the entry
 * was not removed, which is what has to be known. */
static uint8_t result_of(int res)
{
	if (res >= 0)
		return 0;
	return -res < BATCH_CHANGED ? (uint8_t)-res : EINTR;
}

static void complete(struct queue_uring *u, const struct io_uring_cqe *cqe)
{
	unsigned slot = (unsigned)(cqe->user_data >> 32);
	size_t i = (uint32_t)cqe->user_data;
	struct slot *s = &u->slots[slot];
	struct batch *b = s->batch;

	assert(slot < u->n_slots && b && i < b->n && b->in_flight > 0 && u->in_flight > 0);
	b->results[i] = result_of(cqe->res);
	s->tried++;
	s->removed += cqe->res == 0;
	b->in_flight--;
	u->in_flight--;
	slot_fill(u, slot);
}

static struct batch *find_complete(struct queue_uring *u)
{
	for (unsigned i = 0; i < u->n_slots; i++) {
		struct batch *b = u->slots[i].batch;

		if (b && b->in_flight == 0 && atomic_load(&b->next) >= b->n)
			return slot_finish(u, i);
	}
	return NULL;
}

/* The ring itself failed. It is closed first, which waits for everything in flight: a request that
 * came late would find its descriptor's number given to another directory. What it did and what not
 * cannot be told; doing it again with system calls is harmless, because a name that is gone is
 * gone. */
static void fail(struct queue_uring *u)
{
	io_uring_queue_exit(&u->ring);
	u->dead = true;
	for (unsigned i = 0; i < u->n_slots; i++) {
		struct batch *b = u->slots[i].batch;

		if (!b)
			continue;
		atomic_store(&b->next, 0);
		b->in_flight = 0;
		work_here(b);
	}
	u->in_flight = 0;
}

static struct batch *wait_one(struct queue *q)
{
	struct queue_uring *u = (struct queue_uring *)q;

	while (u->active > 0) {
		struct batch *b = find_complete(u);
		struct io_uring_cqe *cqe;
		unsigned head, n = 0;
		int r;

		if (b)
			return b;
		r = io_uring_submit_and_wait(&u->ring, 1);
		if (r < 0 && r != -EINTR && r != -EAGAIN && r != -EBUSY) {
			fail(u);
			continue;
		}
		io_uring_for_each_cqe(&u->ring, head, cqe)
		{
			complete(u, cqe);
			n++;
		}
		io_uring_cq_advance(&u->ring, n);
	}
	return NULL;
}

static void uring_free(struct queue *q)
{
	struct queue_uring *u = (struct queue_uring *)q;

	if (!u->dead)
		io_uring_queue_exit(&u->ring);
	free(u->slots);
	free(u);
}

/* Nothing but unlinkat can be asked of this ring, even by code that should not have it. */
static int restrict_ring(struct io_uring *ring)
{
	struct io_uring_restriction allowed[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_UNLINKAT },
		{ .opcode = IORING_RESTRICTION_REGISTER_OP,
		  .register_op = IORING_REGISTER_IOWQ_MAX_WORKERS },
		{ .opcode = IORING_RESTRICTION_REGISTER_OP,
		  .register_op = IORING_REGISTER_ENABLE_RINGS },
	};

	/* By system call, because liburing 2.3 declares the two functions and does not export them.
	 */
	if (syscall(SYS_io_uring_register, ring->ring_fd, IORING_REGISTER_RESTRICTIONS, allowed,
		    ELEMENTSOF(allowed)) < 0)
		return -errno;
	if (syscall(SYS_io_uring_register, ring->ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) <
	    0)
		return -errno;
	return 0;
}

static int ring_new(struct io_uring *ring)
{
	struct io_uring_params p = { .flags = IORING_SETUP_R_DISABLED | IORING_SETUP_CLAMP };
	struct io_uring_probe *probe;
	int r = io_uring_queue_init_params(RING_ENTRIES, ring, &p);

	if (r < 0)
		return r;
	probe = io_uring_get_probe_ring(ring);
	r = probe && io_uring_opcode_supported(probe, IORING_OP_UNLINKAT) ? 0 : -EOPNOTSUPP;
	io_uring_free_probe(probe);
	if (r >= 0)
		r = restrict_ring(ring);
	if (r < 0)
		io_uring_queue_exit(ring);
	return r;
}

int queue_uring_new(struct queue **ret, struct engine_job *j, unsigned lanes)
{
	static const struct queue_ops ops = { submit, wait_one, uring_free };
	struct queue_uring *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return -ENOMEM;
	u->q.ops = &ops;
	u->job = j;
	u->n_slots = lanes;
	u->slots = calloc(lanes, sizeof(*u->slots));
	r = u->slots ? ring_new(&u->ring) : -ENOMEM;
	if (r < 0) {
		free(u->slots);
		free(u);
		return r;
	}
	*ret = &u->q;
	return 0;
}
