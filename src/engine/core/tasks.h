/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What waits for a lane: tasks that no walker has taken, and batches of busy lanes in which idle
 * ones may help. Walkers and queues add to it; lanes.c takes from it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dirlist.h"
#include "setting.h"

struct batch;
struct engine_job;
struct identity;
struct node;

/* A piece of work: subdirectories of one node, or a root's list. Freed by the walker that takes it.
 */
struct task {
	struct task *next;
	struct node *node;     /* holds a reference, which the walker takes over */
	struct dirlist *roots; /* not NULL: names of any type beneath node, owned by the task */
	const struct identity *pins; /* of the roots, or NULL; the engine's */
	unsigned relists;
	size_t n_names, len;
	char names[]; /* n_names records: the pin's number (64 bits, 0: none), name, NUL */
};

/* A task of one directory; the reference to the node is the caller's to give. NULL: out of memory.
 */
struct task *task_of_one(struct node *n, const struct identity *pins, uint64_t pin,
			 const char *name);

/* Room for a record with the longest name. */
#define TASK_RECORD (sizeof(uint64_t) + 256)

struct tasks {
	struct engine_job *job;
	pthread_mutex_t lock;
	pthread_cond_t wake; /* work, a new setting, the end, or a batch without helpers */
	struct task *first, **tail;
	struct batch *wanted;     /* batches that want help */
	_Atomic unsigned n;       /* queued and not taken */
	_Atomic unsigned idle;    /* lanes at work that have no walker */
	_Atomic unsigned setting; /* setting_pack() */

	pthread_mutex_t turns_lock;
	pthread_cond_t turn; /* an operation has ended, or there may be more */
	unsigned turns;      /* operations under way */
};

void tasks_init(struct tasks *q, struct engine_job *j, struct setting start);

/* The queue must be empty. */
void tasks_done(struct tasks *q);

struct setting tasks_setting(const struct tasks *q);

/* So many idle lanes have found work, or have ended. */
void tasks_busy(struct tasks *q, unsigned lanes);

/* Adds a task; takes it over. */
void tasks_add(struct tasks *q, struct task *t);

/* Takes the first task, or returns NULL. Lock held. */
struct task *tasks_take(struct tasks *q);

/* Puts `mine`, a task of the same node, at the end of the queue and takes the first queued one of a
 * single directory of that node out of it instead. NULL if there is none; `mine` is then still the
 * caller's. */
struct task *tasks_exchange(struct tasks *q, struct task *mine);

/* How many more tasks would be welcome: one for each idle lane, and one for each lane to go on
 * with, so that it need not wait for another walker to share; behind a server, for each lane that
 * there may ever be, as long as no other host would take some. Cheap; may be out of date. */
unsigned tasks_wanted(const struct tasks *q);

/* How many tasks no walker has taken yet. Cheap; may be out of date. */
unsigned tasks_queued(const struct tasks *q);

/* Offers a batch to idle lanes if a second lane in its directory pays: because the filesystem is
 * known for it, or because its entries cost so much (usec_per_entry) that their freeing, which
 * happens outside the parent's lock, outweighs all else. True once it has been offered. */
bool tasks_offer(struct tasks *q, struct batch *b, uint64_t usec_per_entry);

/* Takes a batch that wants help, and counts the caller among its helpers; or returns NULL. Lock
 * held. */
struct batch *tasks_help_begin(struct tasks *q);
void tasks_help_end(struct tasks *q, struct batch *b);

/* Takes the batch back and waits until no other lane works on it. */
void tasks_settle(struct tasks *q, struct batch *b);

/* Where a server answers, a lane takes turns with the others for each operation, so that never more
 * are under way than there are to be lanes, at once when that changes and even in the middle of a
 * directory. False: cancelled. */
bool tasks_turn_begin(struct tasks *q);
void tasks_turn_end(struct tasks *q);
