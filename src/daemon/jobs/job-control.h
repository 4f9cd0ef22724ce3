/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What can be asked for a job: to be taken back, to pause, to go on.
 *
 * Taking back is on record before the first name goes back, as "paused, to become cancelled (or
 * restored)", so that it goes on after a crash instead of what is left being deleted. */
#pragma once

#include "daemon/context/failure.h"
#include "job.h"

typedef void (*control_done_t)(struct job *j, const struct failure *f, void *userdata);

/* Each answers once, later or in this call; the job may have finished by then. What cannot be done
 * in the job's state is answered WrongState, and nothing has changed. */
void control_cancel(struct job *j, control_done_t done, void *userdata);
/* The arguments as those of restore_names. */
void control_restore(struct job *j, int to_fd, const char *to_name, int view_fd,
		     control_done_t done, void *userdata);
void control_pause(struct job *j, control_done_t done, void *userdata);
void control_resume(struct job *j, control_done_t done, void *userdata);

/* Whether it could be done just now; fills *f if not. */
bool control_may_cancel(const struct job *j, struct failure *f);
bool control_may_restore(const struct job *j, struct failure *f);
bool control_may_pause(const struct job *j, struct failure *f);
bool control_may_resume(const struct job *j, struct failure *f);

/* Cancelled jobs of which large files are still being freed: not while everything pauses. */
void control_remainders_update(struct jobs *jobs);

/* A job whose submit could not be answered, as its caller was gone: what has been moved is put
 * back. What cannot be stays in staging, and the job pauses. */
void control_withdraw(struct job *j);

/* After a restart: a job that was being taken back. No client waits for it. */
void control_resume_restore(struct job *j);
