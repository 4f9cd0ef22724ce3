/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What can be asked for a job: to be taken back, to pause, to go on, to be done sooner or later.
 *
 * Taking back is on record before the first name goes back, as "paused, to become cancelled (or
 * restored)", so that it goes on after a crash instead of what is left being deleted. */
#pragma once

#include "daemon/context/failure.h"
#include "job-restore.h"
#include "job.h"

typedef void (*control_done_t)(struct job *j, const struct failure *f, void *userdata);

enum control_verb {
	CONTROL_CANCEL,
	CONTROL_RESTORE,
	CONTROL_PAUSE,
	CONTROL_RESUME,
	CONTROL_CHANGE
};

/* Whether it could be done just now; fills *f, as WrongState, if not. */
bool control_may(enum control_verb verb, const struct job *j, struct failure *f);

/* What of a job may be another than it was submitted with. */
struct job_change {
	bool has_priority, has_deadline;
	enum job_priority priority;
	uint64_t deadline_usec; /* 0: none */
};

/* Changes the priority, the deadline or both. They are in force at once; calls `done` when they are
 * on record. The caller has checked control_may(). */
void control_change(struct job *j, const struct job_change *to, control_done_t done,
		    void *userdata);

/* Answers once, later or in this call; the job may have finished by then. What cannot be done in
 * the job's state is answered WrongState, and nothing has changed. to: for CONTROL_RESTORE, else
 * NULL; name and descriptors are duplicated. */
void control_begin(enum control_verb verb, struct job *j, const struct restore_target *to,
		   control_done_t done, void *userdata);

/* Cancelled jobs of which large files are still being freed: not while everything pauses. */
void control_remainders_update(struct jobs *jobs);

/* A job whose submit could not be answered, as its caller was gone: what has been moved is put
 * back. What cannot be stays in staging, and the job pauses. */
void control_withdraw(struct job *j);

/* After a restart: a job that was being taken back. No client waits for it. */
void control_resume_restore(struct job *j);
