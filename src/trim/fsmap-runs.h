/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The free runs of an XFS, as the kernel tells them (FS_IOC_GETFSMAP). ext4 has that, too, but goes
 * through all its block groups at each call. Nothing here allocates. */
#pragma once

#include <linux/fsmap.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FSMAP_RECORDS 512

struct fsmap_runs {
	int fd; /* on the filesystem; not owned */
	dev_t device;
	uint64_t end;
	uint64_t from, upto; /* what the records tell of; equal: nothing */
	struct fsmap_head head;
	struct fsmap records[FSMAP_RECORDS]; /* which follow their head */
};

/* For the filesystem on this device, whose addresses end there. */
void fsmap_runs_begin(struct fsmap_runs *r, int fd, dev_t device, uint64_t end);

/* Does the kernel tell? */
bool fsmap_runs_work(struct fsmap_runs *r);

/* As ext_runs_next (ext-runs.h); behind many used extents an empty run at the place that was
 * reached. What the kernel does not tell is one run. */
bool fsmap_runs_next(void *runs, uint64_t from, uint64_t *ret_start, uint64_t *ret_end);
