/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs that rest. Users may have a hundred thousand jobs each that are held, wait for their turn or
 * pause, with paths of 4 KiB. While nothing happens to such a job, memory has only its struct
 * job_stub: the store has the rest, which is read again when the job is shown, run, restored,
 * cancelled or changed.
 *
 * A job falls asleep between two turns of the event loop, never while a function uses it. Whatever
 * keeps a pointer to a struct job across turns must therefore keep the job out of the phases at
 * rest, or be known to may_rest() in job-rest.c. */
#pragma once

#include "job.h"

/* Is called once. If r is 0, s->job is the job, which does not rest again before the call returns.
 * If r is a negative errno, the record could not be read, and the job rests as before. */
typedef void (*job_awake_t)(int r, struct job_stub *s, void *userdata);

/* Calls `awake` in this call if the job does not rest, otherwise when its record has been read. */
void job_wake(struct job_stub *s, job_awake_t awake, void *userdata);

/* Wakes the job when its turn comes and calls jobs->turn with it. Few jobs have their turn at the
 * same time, so that what is due for a hundred thousand jobs at once needs memory for few. */
void job_turn_wait(struct job_stub *s);

/* Frees a job that has just been loaded from the store if it may rest. */
void job_rest_loaded(struct job *j);

/* From this call on jobs fall asleep. Returns 0 or a negative errno. */
int job_rest_begin(struct jobs *jobs);
