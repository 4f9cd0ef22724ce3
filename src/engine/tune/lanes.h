/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The lanes: threads that take tasks, and who helps whom.
 *
 * A lane is one walker at work. A thread runs one of them on the threads queue, or many on a ring.
 * Walkers are handed on between threads when the setting changes. */
#pragma once

#include "engine/core/engine-job.h"
#include "engine/core/tasks.h"

struct lanes;

/* Sets j->tasks, which the caller fills before it runs the lanes. Returns 0 or -ENOMEM. */
int lanes_new(struct lanes **ret, struct engine_job *j);
/* Tasks that are left are dropped, and their nodes kept. */
struct lanes *lanes_free(struct lanes *l);

/* Runs all tasks to their end, tuning meanwhile and calling the job's progress callback; on the
 * caller's thread. Returns 0 or the errno of starting the first thread. */
int lanes_run(struct lanes *l);
