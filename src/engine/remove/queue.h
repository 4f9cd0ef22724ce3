/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where batches go in, and the same batches come out, performed: by system calls on the calling
 * thread, in which other lanes may help, or on a ring. A queue belongs to one thread. */
#pragma once

#include <stdbool.h>

#include "engine/core/setting.h"

struct batch;
struct queue;

/* BACKEND_THREADS: one batch at a time; BACKEND_URING: one ring, restricted to IORING_OP_UNLINKAT,
 * for as many as the setting has lanes. Returns 0, -ENOMEM, or the reason why this kernel or this
 * process may have no ring (-ENOSYS, -EPERM, -EOPNOTSUPP...). queue_free takes NULL, and returns
 * it.
 */
int queue_new(struct queue **ret, struct setting s);
struct queue *queue_free(struct queue *q);

/* Can this process have a ring at all? Takes some time: one is made. */
bool queue_ring_usable(void);

/* Begins a batch. It is the queue's until queue_wait returns it. Never fails: what goes wrong is in
 * the batch's results. */
void queue_submit(struct queue *q, struct batch *b);

/* Waits for any one batch to be complete. NULL if none was submitted. */
struct batch *queue_wait(struct queue *q);
