/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What jobs have freed and trimmed on each filesystem, by its mount point: for `after:` of the
 * configuration, and for metrics. Since the daemon was started, but for the last trim that was
 * done, which the store tells. */
#pragma once

#include "job.h"

struct trim_total {
	LIST_ENTRY(trim_total) link;
	char *mount;
	uint64_t freed_bytes; /* by deletions, since the last trim was asked for */
	uint64_t trimmed_bytes, longest_step_usec;
	uint64_t finished[JOB_STATES]; /* trims, by how they ended */
	uint64_t last_done_usec;       /* CLOCK_REALTIME, when the last one was done; or 0 */
	uint64_t mib_usec;             /* what a MiB took in the first step of the last; or 0 */
};

/* Reads what the history has, before the store has its thread. Returns 0 or a negative errno. */
int trim_totals_load(struct jobs *jobs, struct store *s);
void trim_totals_done(struct jobs *jobs);

/* What a MiB took in the first step of a trim that has begun; 0: it trimmed too little to tell. */
void trim_totals_measured(const struct job *j, uint64_t mib_usec);

/* A trim has finished. */
void trim_totals_finished(const struct job *j);

/* A job that deletes has freed so much there: has the filesystem trimmed, if that is as much as the
 * configuration says. */
void trim_totals_freed(const struct job *j, uint64_t bytes);
