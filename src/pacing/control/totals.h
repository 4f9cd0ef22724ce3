/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What has happened on a set of devices while something was deleted there, for monitoring over
 * days: counters and histograms that only ever grow. Embedded by their users; all zero is the
 * beginning. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* How often something took how long. The bounds are the same for everything that is measured, so
 * that histograms can be added up. */
#define HISTOGRAM_BOUNDS 16
extern const uint64_t histogram_bounds_usec[HISTOGRAM_BOUNDS];

struct histogram {
	/* Of those that took up to histogram_bounds_usec[i], but more than the bound before; the
	 * last is of all that took longer than any bound. */
	uint64_t counts[HISTOGRAM_BOUNDS + 1];
	uint64_t sum_usec;
};

/* Which of the counts is that of something that took so long. */
size_t histogram_place(uint64_t usec);

/* Counts `times` operations that took `usec` each. */
void histogram_add(struct histogram *h, uint64_t usec, uint64_t times);

/* Why deleting went slower. */
enum pacing_backoff {
	BACKOFF_FOREIGN_IO, /* foreign I/O was seen: full speed ended */
	BACKOFF_READS,      /* foreign reads were slower while we worked */
	BACKOFF_QUANTUM,    /* a quantum cost more than it may */
	BACKOFF_DISCARD,    /* a single discard did */
	PACING_BACKOFFS,
};

/* Counts and nothing else: they are added up as an array. */
struct pacing_totals {
	struct histogram reads;  /* of all processes, by their mean over some milliseconds */
	struct histogram syncs;  /* the canary's: what a small sync of another process costs */
	struct histogram quanta; /* of ours, the sync included, while foreign I/O was spared */
	uint64_t backoffs[PACING_BACKOFFS];
	uint64_t entries, bytes;    /* removed and freed */
	uint64_t written_back;      /* bytes that these have left dirty, written back in steps */
	struct histogram gap_reads; /* of reads, those in gaps, in which nothing is deleted */
};

/* Adds what `from` has counted to `to`. */
void pacing_totals_merge(struct pacing_totals *to, const struct pacing_totals *from);

/* "foreign-io", "reads", "quantum", "discard": the reasons in metrics and in the API. */
const char *pacing_backoff_name(enum pacing_backoff b);
