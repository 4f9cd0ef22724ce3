/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is left of large files that were being freed in steps when their job was stopped. They have
 * no names any more; the worker that holds them is all that keeps the kernel from freeing them at
 * once. It belongs to the job, not to the staging area, where other jobs go on meanwhile.
 *
 *   stopped (paused, cancelled)    held
 *   running again                  freed at its pace, before anything else of the job
 *   cancelled                      freed at its pace, once the names are back
 *
 * Of what the daemon, or a worker, takes along when it ends nothing is on record: the kernel has
 * freed it, and the job goes on with what has names. */
#pragma once

#include "job.h"

struct remainder {
	LIST_ENTRY(remainder) link; /* in the list of all */
	struct jobs *jobs;
	struct job *job; /* or NULL, if it is no more */
	struct worker *worker;
	uint64_t before; /* what of the worker's bytes the job's record has */
	uint64_t mnt_id;
	int dirfd; /* on the filesystem */
	bool held, released, short_of_space;
	void (*gone)(struct job *j, void *userdata);
	void *userdata;
};

/* Takes the worker over, which has freed `bytes` and holds what is left, as the job's. dirfd: a
 * directory on the filesystem; duplicated. Where there are too many already, or memory is short,
 * the worker is let go of, and what it holds with it. */
void remainder_new(struct job *j, struct worker *w, int dirfd, uint64_t bytes);

/* gone is called once nothing is left, for whatever reason; r is freed by then. NULL: nothing
 * waits for it. */
void remainder_watch(struct remainder *r, void (*gone)(struct job *j, void *userdata),
		     void *userdata);

/* It is freed at its pace; it is held again; the kernel is to free it at once. If out of memory,
 * it may be gone when these return. */
void remainder_free_paced(struct remainder *r);
void remainder_hold(struct remainder *r);
void remainder_release(struct remainder *r);

/* How much of it is freed that the job's record does not count yet. */
uint64_t remainder_bytes(const struct remainder *r);

/* The job is over: what it still has is left to the kernel. It need not have any. */
void remainder_abandon(struct job *j);

/* Mounts have changed: what is held on one that is not there any more would keep it busy. */
void remainders_check_mounts(struct jobs *jobs);
/* At the end: records what they have freed. */
void remainders_end(struct jobs *jobs);
