/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the last time has left: jobs in the store, and names in staging.
 *
 *   accepted   not all may be staged: staging is listed; what is not there is deleted where it
 *              is. A record without names was never complete: it is forgotten
 *   held, queued, running   waits again; what runs was recorded as far as it had come
 *   paused     stays so; one that was being put back is put back
 *
 * Staging directories of jobs that are not in the store are never touched, only told of. */
#pragma once

#include "job.h"

/* Reads unfinished jobs into memory, before the store has its thread. Returns 0 or a negative
 * errno.
 */
int recover_load(struct jobs *jobs, struct store *s);

/* They go on. */
void recover_begin(struct jobs *jobs);
/* Goes on with a job as its record says. */
void recover_take_up(struct job *j);

/* Mounts have come or gone: those that could not be listed are tried again. */
void recover_retry(struct jobs *jobs);

/* Looks for job directories without a job on all mounts, and tells of them. */
void recover_orphans(struct jobs *jobs);
