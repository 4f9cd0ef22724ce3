/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A thread that owns the store, so that the event loop never waits for a disk.
 *
 * What is posted while it is busy shares the next transaction (group commit): one fsync answers
 * hundreds of submits. A piece of work that fails is undone alone (savepoint); if the commit fails,
 * all of them have failed. Answers come back in order, on the thread of the loop. */
#pragma once

#include "store.h"

struct store_queue;

/* On the store's thread, within a transaction. Returns 0 or a negative errno. */
typedef int (*store_work_t)(struct store *s, void *userdata);
/* On the loop's thread, when it is durable (r >= 0: what the work returned) or has failed. */
typedef void (*store_done_t)(int r, void *userdata);

/* Takes the store over; it is closed with the queue. */
int store_queue_new(struct store_queue **ret, struct store *s);
/* Everything posted is done first, and its answers delivered. */
struct store_queue *store_queue_free(struct store_queue *q);

/* Readable when there are answers: for the event loop, which then calls store_queue_dispatch. */
int store_queue_fd(const struct store_queue *q);
void store_queue_dispatch(struct store_queue *q);

/* done may be NULL. Returns 0 or -ENOMEM; then neither is called. Where there is no room for it,
 * the work is done again after some was made, also from the store's reserve: it must not matter
 * that it was done before, and undone. */
int store_queue_post(struct store_queue *q, store_work_t work, store_done_t done, void *userdata);

/* The same for what is new: -ENOSPC where there is nothing but the reserve, and not done twice. */
int store_queue_accept(struct store_queue *q, store_work_t work, store_done_t done, void *userdata);

/* The same for a part of what is accepted: it is not durable before what store_queue_accept posts
 * behind the last part is, which fails if it is not. */
int store_queue_accept_part(struct store_queue *q, store_work_t work, store_done_t done,
			    void *userdata);

/* The same for work that only reads and need not wait for a commit. */
int store_queue_read(struct store_queue *q, store_work_t work, store_done_t done, void *userdata);
