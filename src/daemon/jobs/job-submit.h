/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From names to a job:
 *
 *   caller -> intake worker: look at everything, as the submitter
 *          -> store: job (accepted) and names, in pieces while they come; the last piece completes
 *             it, and only that makes it a job
 *          -> intake worker: rename into staging
 *          -> the answer; store: where names are now, held or queued
 *
 * What can fail, and what then is:
 *   refused while looking    the record is removed; nothing was moved
 *   record not durable       the same
 *   refused while staging    what was moved is moved back by the worker, the record is removed. If
 *                            something cannot be moved back, the record stays, as failed, and says
 *                            where it is
 *   no staging possible      names stay where they are, and the job says why
 *   the client goes          before it could be answered, also by SIGKILL or with its bus: nothing
 *                            is moved any more, and the record is removed; what has been moved is
 *                            put back as if the job had been cancelled, and the record says so.
 *                            This is looked at between the steps; names that are on their way are
 *                            all moved first. From the answer on (it is written to a connection
 *                            that lives) the job stands
 *   the worker dies          what is in staging is looked up (job-recover.h); the job goes on
 *   the daemon dies          an incomplete record (no names) is removed at the next start. Of a
 *                            complete one, staging is looked at: names are either there or where
 *                            they were. That names are staged need not be on record for the
 *                            answer, because of that. It goes on, because it may have been
 *                            answered; a withdrawal that had begun goes on too */
#pragma once

#include "daemon/api/operations.h"

struct job;

/* Begins; options were checked. */
void submit_begin(struct manager *m, const struct caller *c, const struct intake_group *groups,
		  size_t n, const struct submit_options *o, submit_done_t done, void *userdata);

/* Hands a job whose names are still being moved (DOING_SUBMIT) to `stopped` when they have been, or
 * when it has been refused, and is finished then. Returns 0, or -EBUSY if that was asked for. */
int submit_stop(struct job *j, void (*stopped)(struct job *j, void *userdata), void *userdata);
