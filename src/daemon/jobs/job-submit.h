/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From names to a job:
 *
 *   caller -> intake worker: validate everything, as the submitter
 *          -> store: job (accepted) and names, in pieces while they come; the last piece completes
 *             it, and only that makes it a job
 *          -> intake worker: rename into staging
 *          -> the answer; store: where names are now, held or queued
 *
 * What can fail, and what then is:
 *   refused by validation    the record is removed; nothing was moved
 *   record not durable       the same
 *   refused while staging    what was moved is moved back by the worker, the record is removed. If
 *                            something cannot be moved back, the record stays, as failed, and says
 *                            where it is
 *   no staging possible      names stay where they are, and the job says why
 *   the client goes          before it could be answered, also by SIGKILL or with its bus: nothing
 *                            is moved any more, and the record is removed; what has been moved is
 *                            put back as if the job had been cancelled, and the record says so.
 *                            This is checked between the steps; names that are on their way are
 *                            all moved first. From the answer on (it is written to a connection
 *                            that lives) the job stands
 *   the worker dies          what is in staging is listed (job-recover.h); the job goes on
 *   the daemon dies          an incomplete record (no names) is removed at the next start. Of a
 *                            complete one, staging is listed: names are either there or where
 *                            they were. That names are staged need not be on record for the
 *                            answer, because of that. It goes on, because it may have been
 *                            answered; a withdrawal that had begun goes on too */
#pragma once

#include "daemon/context/failure.h"
#include "job.h"

struct submit_options {
	bool has_undo;
	uint64_t undo_usec;
	uint64_t by_usec;
	enum job_priority priority;
	bool dry_run;
	bool rmdir;         /* a JOB_RMDIR */
	uint64_t bytes;     /* that the caller has counted; 0: has not */
	const char *origin; /* NULL: "submit" */
	/* NULL: no caller waits for an answer, as with spools. Else whether the caller still does,
	 * with the userdata of `done`: a submit that cannot be answered any more is withdrawn. */
	bool (*is_awaited)(void *userdata);
	/* What has been moved out of the way by then stays accepted: the caller, which has gone,
	 * may have seen that the name is gone. */
	bool keep_moved;
	/* NULL, or whether a name that was found is the one that is meant: if not, the submit is
	 * refused as IdentityChanged. Called in the order of names, before it is answered. */
	bool (*is_expected)(const struct entry_record *e, void *userdata);
	void *expected_userdata;
};

struct submitted {
	uint64_t id; /* 0: dry run */
	uint64_t accepted, missing;
	bool interrupted; /* a worker died, and nothing was accepted: the same may go well */
};

/* f->cause is ERROR_NONE on success. */
typedef void (*submit_done_t)(const struct failure *f, const struct submitted *s, void *userdata);

/* Begins; options were checked. view_fd: the mount table of the process that asks, duplicated; -1:
 * the daemon asks for itself. Groups, their names and descriptors are only needed during the call.
 */
void submit_begin(struct jobs *jobs, const struct credentials *id, int view_fd,
		  const struct intake_group *groups, size_t n, const struct submit_options *o,
		  submit_done_t done, void *userdata);
