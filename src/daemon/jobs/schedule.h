/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When jobs begin: the undo window's end, the queues, and the choice among them. */
#pragma once

#include "job.h"

/* What a job does next by itself: is held until its undo window ends, or waits in its queue. Its
 * state is set; recording it is the caller's. */
void schedule_job(struct job *j);
/* Takes it out again, wherever it waits. */
void schedule_remove(struct job *j);

/* The time, as context_clock has it. If the clock was set since this was last asked, what is held
 * or waits does so for as long as it would have, and its record says so: a window of an hour is one
 * of an hour, be the clock ahead by ten years. */
uint64_t schedule_clock(struct jobs *jobs);

/* A time of that clock after it was set by so much; 0 is none, and stays so. */
uint64_t schedule_moved(uint64_t usec, int64_t step);

/* It has begun to run, or runs no more: its staging area may begin with another one. */
void schedule_enter(struct job *j);
void schedule_leave(struct job *j);

/* Something has changed: chooses anew when the loop comes round. */
void schedule_kick(struct jobs *jobs);
/* STATUS= of the service: what is going on. */
void schedule_status(const struct jobs *jobs);

/* Mounts have come or gone: staging areas that were not there may be now. */
void schedule_retry_absent(struct jobs *jobs);
