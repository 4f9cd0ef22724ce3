/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The withdrawal of a job from other hosts of a fleet. While any of them may still delete in it, no
 * name of it goes back to its place: what is back must not be deleted.
 *
 *   its mark is withdrawn    (worker/marks.c), by root's intake worker
 *   it is waited for         MARK_GONE_USEC: a host goes on with a part of the job for
 *                            MARK_HOLDS_USEC (sharing.h) after it began to look at the mark
 *   and as long              as the database, if it can be asked, says that a host has a part
 *   the mark is removed
 *
 * The database alone is no proof: it may have been restored, or be another one. Nor is anything
 * that this process remembers: the mark tells that a job was shared before it was started. */
#pragma once

#include "job.h"

/* Begins, if the job may be shared, and nothing waits for it. Where it cannot, it is tried again by
 * and by. */
void withdrawal_begin(struct job *j);

/* done is called once, in this call or later. r is 0: no other host deletes in the job, or can
 * begin to. Or a negative errno, and that is not certain: of asking the worker, or
 * -ECANCELED, as reclaimd stops. One at a time. */
void withdrawal_wait(struct job *j, void (*done)(struct job *j, int r, void *userdata),
		     void *userdata);

/* The job has ended: its mark is removed. */
void withdrawal_finish(struct job *j);

/* Removes the mark of a job that is not here any more, of that host on that mount. */
void withdrawals_remove(struct jobs *jobs, const char *mount, const char *host, uint64_t job);

/* Marks that could not be removed, as their filesystem was not mounted, may be now. */
void withdrawals_mounts_changed(struct jobs *jobs);

/* reclaimd stops: what waits is told so. */
void withdrawals_stop(struct jobs *jobs);
/* Frees what is left of them, when no worker has an answer to come. */
void withdrawals_done(struct jobs *jobs);
