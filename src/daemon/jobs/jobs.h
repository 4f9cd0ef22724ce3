/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All jobs: what the daemon does with them as a whole. */
#pragma once

#include "job.h"

/* They work with these, which outlive them. All zeroes else. */
void jobs_init(struct jobs *jobs, struct context *c, struct submitters *s);

/* Resumes all jobs and begins to limit the history. Returns 0 or a negative errno. */
int jobs_begin(struct jobs *jobs);

/* Applies the configured limits of the history, now and then every hour. Returns 0 or a negative
 * errno. */
int jobs_limit_history(struct jobs *jobs);

/* Mounts have come or gone. */
void jobs_mounts_changed(struct jobs *jobs);
/* SIGURG: another process waits to open a large file that is being freed. */
void jobs_lease_broken(struct jobs *jobs);
/* The store refused changes: posts them again. */
void jobs_save_retry(struct jobs *jobs);
/* The store works again: what waits for a time because it did not need not wait any longer. */
void jobs_store_recovered(struct jobs *jobs);

/* Nothing is begun while all pause. done is called once, when all that ran has stopped and that is
 * on record, or (r < 0) could not be recorded. Returns 0, or -ENOMEM, and nothing was done. */
int jobs_pause_all(struct jobs *jobs, bool pause, void (*done)(int r, void *userdata),
		   void *userdata);

/* The daemon ends: what runs stops at the next entry, and waits for the next start. */
void jobs_stop(struct jobs *jobs);
/* Ends all workers, at once. What they had done is recorded. */
void jobs_end_workers(struct jobs *jobs);
/* Frees them, after the store's thread has ended. */
void jobs_done(struct jobs *jobs);
