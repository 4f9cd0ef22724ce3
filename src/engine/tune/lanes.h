/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The crew: drivers (threads), the tasks they take, and who helps whom.
 *
 * A driver runs one walker on the threads queue, or many on a ring. `lanes` is the number of
 * walkers at work, whatever runs them. Walkers are handed on between drivers when the setting
 * changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/core/dirlist.h"
#include "engine/filesystem/profile.h"

struct batch;
struct crew;
struct identity;
struct job;
struct node;
struct walker;

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

/* Room for a record with the longest name. */
#define TASK_RECORD (sizeof(uint64_t) + 256)

int crew_new(struct crew **ret, struct job *j);
struct crew *crew_free(struct crew *c);

/* The first of all tasks, before the crew runs. */
struct task *crew_tasks(struct crew *c);

/* Adds a task; takes it over. */
void crew_add(struct crew *c, struct task *t);

/* Puts `mine`, a task of the same node, at the end of the queue and takes the first queued one of a
 * single directory of that node out of it instead. NULL if there is none; `mine` is then still the
 * caller's. */
struct task *crew_exchange(struct crew *c, struct task *mine);

/* How many more tasks would be welcome: one for each idle lane, and one for each lane to go on
 * with, so that it need not wait for somebody to share; behind a server, for each lane that there
 * may ever be. Cheap; may be out of date. */
unsigned crew_wants(struct crew *c);

/* How many tasks nobody has taken yet. Cheap; may be out of date. */
unsigned crew_queued(struct crew *c);

/* Queues the directory of a node to be listed again; takes over the node's reference to its parent
 * if it returns 0, or returns -ENOMEM. */
int crew_relist(struct crew *c, const struct node *n);

/* Offers a batch to idle lanes if a second lane in its directory pays: because the filesystem is
 * known for it, or because its entries cost so much (usec_per_entry) that their freeing, which
 * happens outside the parent's lock, outweighs all else. True once it has been offered. */
bool crew_offer(struct crew *c, struct batch *b, uint64_t usec_per_entry);

/* Takes the batch back and waits until no other lane works on it. */
void crew_settle(struct crew *c, struct batch *b);

/* Where a server answers, a lane takes turns with the others for each operation, so that never more
 * are under way than there are to be lanes, at once when that changes and even in the middle of a
 * directory. False: cancelled. */
bool crew_turn_begin(struct crew *c);
void crew_turn_end(struct crew *c);

/* Runs all tasks to their end, tuning meanwhile and calling the job's progress callback; on the
 * caller's thread. Returns 0 or the errno of starting the first driver. */
int crew_run(struct crew *c);

void crew_setting(const struct crew *c, enum backend *ret_backend, unsigned *ret_lanes);
