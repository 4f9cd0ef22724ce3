/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A walker goes depth-first through the subtrees of one task, by descriptor and single component,
 * without recursion. It deletes nothing itself: walker_step returns the next batch, and expects it
 * performed before it is called again. Used by one thread at a time. */
#pragma once

#include <stdbool.h>

#include "engine/core/batch.h"
#include "engine/core/tasks.h"

/* *ret is the caller's. Returns 0 or -ENOMEM. walker_free takes NULL, and returns NULL. */
int walker_new(struct walker **ret, struct engine_job *j);
struct walker *walker_free(struct walker *w);

/* A list of walkers: puts one in front; takes the first one off, NULL if there is none. */
void walker_push(struct walker **list, struct walker *w);
struct walker *walker_pop(struct walker **list);

/* Starts on a task; takes it over. */
void walker_begin(struct walker *w, struct task *t);

/* Goes on to the next batch. Returns it, or NULL when the task is done. */
struct batch *walker_step(struct walker *w);

/* The batch that walker_step returned last; NULL if there was none since the task was begun. */
struct batch *walker_batch(struct walker *w);
