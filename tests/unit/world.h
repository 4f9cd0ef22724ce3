/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An invented device for the controller: foreign reads, syncs and commits, a sync that costs,
 * pieces that cost more the larger they are, reads that suffer while pieces are at work or do not.
 */
#pragma once

#include "pacing/control/controller.h"
#include "base/macros.h"

#define MSEC USEC_PER_MSEC
#define STEP 100ULL /* resolution of the simulation */

struct device {
	uint64_t sync_usec;       /* with nothing freed */
	double byte_usec;         /* added by each byte of a piece */
	double entry_usec;        /* and by each entry */
	uint64_t read_usec;       /* foreign reads, at rest */
	double suffer;            /* how much longer they take while a piece is at work */
	uint64_t reads_per_sec;   /* foreign; 0: none */
	uint64_t flushes_per_sec; /* foreign, which commit nothing */
	uint64_t flush_usec;      /* what each of them takes; 0: it is not told */
	uint64_t own_sectors;     /* read by each slice of work */
	uint64_t commits_per_sec; /* foreign */
};

struct world {
	struct device d;
	struct controller c;
	struct pacing_sample s;
	uint64_t now, sample_at, busy_until, sync_from, read_at, flush_at, commit_at, canary_until;
	uint64_t slice_entries, slice_bytes;
	bool working, syncing, by_entries;
	uint64_t bytes, entries; /* done */
	uint64_t waited_usec;    /* in fast mode's checks and all other pauses */
	uint64_t fast_usec, worked_usec, syncs;
};

/* What looks for foreign I/O, and what presumes it. */
extern const struct controller_options automatic, cautious;

/* A solid disk: 1 ms for a sync, and half a millisecond for each MiB that is discarded. */
extern const struct device solid;

/* The same with foreign reads. */
struct device with_reads(struct device d, uint64_t per_sec);

/* The device as it is at the beginning, and a controller that has just begun to work on it. */
void world_init(struct world *w, const struct controller_options *o, struct device d);
/* So much time passes: foreign I/O goes on, samples are taken, one lane works. */
void world_pass(struct world *w, uint64_t usec);
