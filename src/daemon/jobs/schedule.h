/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When jobs begin: their queues, and the choice among them. What waits for a time is in
 * undo-deadline.h. */
#pragma once

#include "job.h"

/* What a job does next by itself: is held until its undo window ends, or waits in its queue. Its
 * state is set; recording it is the caller's. */
void schedule_job(struct job *j);
/* The same for a job that rests, of which the store need not learn: it is held or queued by its
 * record already. */
void schedule_stub(struct job_stub *s);
/* Takes it out again, wherever it waits. */
void schedule_remove(struct job *j);

/* Keeps a job from beginning, because it is about to be stopped; and lets it wait again if it is
 * not stopped after all. NULL is accepted. */
void schedule_withhold(struct job_stub *s);
void schedule_release(struct job_stub *s);

/* Where it waits in a queue, it goes to the end of that of its new priority. */
void schedule_priority(struct job *j, enum job_priority p);

/* It has begun to run, or runs no more: its staging area may begin with another one. */
void schedule_enter(struct job *j);
void schedule_leave(struct job *j);

/* Something has changed: chooses anew when the loop comes round. */
void schedule_kick(struct jobs *jobs);
/* STATUS= of the service: what is going on. */
void schedule_status(const struct jobs *jobs);

/* Mounts have come or gone: staging areas that were not there may be now. */
void schedule_retry_absent(struct jobs *jobs);
