/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is left of large files that were being freed in steps when their job was stopped, or when
 * their worker or the daemon ended. They have no names any more; their descriptors are all that
 * keeps the kernel from freeing them at once (shrinking.h; and the worker that was stopped in their
 * midst has them, too). The remainder belongs to the job, not to the staging area, where other jobs
 * go on meanwhile.
 *
 *   stopped (paused, cancelled)    held
 *   running again                  freed at its pace, before anything else of the job
 *   cancelled                      freed at its pace, once the names are back
 *
 * After a power cut nothing is left of it: the kernel has freed it, and the job goes on with what
 * has names. */
#pragma once

#include "job.h"

struct remainder {
	LIST_ENTRY(remainder) link; /* in the list of all */
	struct jobs *jobs;
	struct job *job;       /* or NULL, if it is no more */
	struct worker *worker; /* or NULL: held, with none */
	uint64_t before;       /* what of the worker's bytes the job's record has */
	unsigned tries;        /* workers in a row that have freed nothing */
	uint64_t mnt_id;       /* of our namespace, ... */
	dev_t dev;             /* ... or that is not known, but this is; or 0 */
	int dirfd;             /* on the filesystem; -1: none */
	bool held, released, short_of_space;
	void (*gone)(struct job *j, void *userdata);
	void *userdata;
};

/* Takes the worker over, which has freed `bytes` and holds what is left, as the job's. dirfd: a
 * directory on the filesystem; duplicated. Where there are too many already, the worker is let go
 * of, and the remainder is what is kept of the files. */
void remainder_new(struct job *j, struct worker *w, int dirfd, uint64_t bytes);

/* The one that the job has; or else what is kept of its files is made one, which is held. NULL:
 * nothing is left of any. */
struct remainder *remainder_of(struct job *j);

/* Something that is on its filesystem, or -1. */
int remainder_fd(const struct remainder *r);

/* gone is called once nothing is left, for whatever reason; r is freed by then. NULL: nothing
 * waits for it. */
void remainder_watch(struct remainder *r, void (*gone)(struct job *j, void *userdata),
		     void *userdata);

/* It is freed at its pace; it is held again; the kernel is to free it at once. It may be gone when
 * these return: if out of memory, or without a worker. */
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
