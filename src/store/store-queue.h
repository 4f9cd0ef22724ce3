/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two threads that own the store, so that the event loop never waits for a disk.
 *
 * One thread writes. All work that is posted while it is busy shares the next transaction (group
 * commit): one fsync answers hundreds of submits. Work that fails is undone alone (savepoint); if
 * the commit fails, all work in the transaction has failed. Answers come back in the order of
 * posting.
 *
 * The other thread reads, through a connection of its own, so that reading delays no submit.
 * Callers are served in turn, so that a caller with a thousand reads delays another caller by one
 * read. A read must be bounded: divide a long walk into pages.
 *
 * Answers are delivered on the thread of the event loop. */
#pragma once

#include "store.h"

struct store_queue;

/* Runs on a thread of the store. Returns 0 or a negative errno. */
typedef int (*store_work_t)(struct store *s, void *userdata);
/* Runs on the thread of the loop, when the work is durable (r >= 0: its return value) or has
 * failed. */
typedef void (*store_done_t)(int r, void *userdata);

/* Takes ownership of the store, unless it fails. Returns 0 or a negative errno. */
int store_queue_new(struct store_queue **ret, struct store *s);
/* Everything posted is done first, and its answers delivered. NULL is accepted; returns NULL. */
struct store_queue *store_queue_free(struct store_queue *q);

/* Readable when there are answers: for the event loop, which then calls store_queue_dispatch. */
int store_queue_fd(const struct store_queue *q);
void store_queue_dispatch(struct store_queue *q);

/* Posts work that writes. `done` may be NULL. Returns 0 or -ENOMEM; then neither is called. If
 * there is no space for the work, it is undone and then done again after space was made, also from
 * the store's reserve. */
int store_queue_post(struct store_queue *q, store_work_t work, store_done_t done, void *userdata);

/* The same for the last change of a job, which the loop forgets once it is answered. A read that is
 * in progress may not have seen the change, so its answer comes first. */
int store_queue_post_last(struct store_queue *q, store_work_t work, store_done_t done,
			  void *userdata);

/* The same for a new job. The reserve is not used for it: r is -ENOSPC if there is no other space,
 * even after history was removed. */
int store_queue_accept(struct store_queue *q, store_work_t work, store_done_t done, void *userdata);

/* The same for a part of what is accepted: it is not durable before the work that
 * store_queue_accept posts after the last part, which fails if the part is not. */
int store_queue_accept_part(struct store_queue *q, store_work_t work, store_done_t done,
			    void *userdata);

/* Sets the limits of the history. The writing thread removes what exceeds them, now and whenever a
 * job has finished, in steps between transactions. */
void store_queue_limit_history(struct store_queue *q, const struct history_limits *limits);

/* The caller of reads that no user has asked for. They come before those of users, and they see all
 * that was posted before. */
#define STORE_DAEMON UINT64_MAX

/* Posts work that reads, for a caller: a user id, or STORE_DAEMON. A read for a user sees what was
 * answered before; it does not wait for work that is posted. */
int store_queue_read(struct store_queue *q, uint64_t caller, store_work_t work, store_done_t done,
		     void *userdata);

/* The same for the next part of a read that was just answered: it comes before other reads of its
 * caller, so that each caller has few unfinished walks in memory. */
int store_queue_read_on(struct store_queue *q, uint64_t caller, store_work_t work,
			store_done_t done, void *userdata);
