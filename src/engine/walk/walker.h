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

/* A list of walkers that have no task: puts one before `next`; takes it off and returns the next.
 */
void walker_link(struct walker *w, struct walker *next);
struct walker *walker_unlink(struct walker *w);

/* Starts on a task; takes it over. */
void walker_begin(struct walker *w, struct task *t);

/* Goes on to the next batch. Returns it, or NULL when the task is done. */
struct batch *walker_step(struct walker *w);
