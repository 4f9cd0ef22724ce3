/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What has happened on a set of devices while something was deleted there, for whoever watches it
 * over days. Only ever grows. Embedded by its users; all zero is the beginning. */
#pragma once

#include <stdint.h>

#include "histogram.h"

/* Why deleting went slower. */
enum pacing_backoff {
	BACKOFF_FOREIGN_IO, /* somebody was there: full speed ended */
	BACKOFF_READS,      /* others' reads were slower while we worked */
	BACKOFF_QUANTUM,    /* a piece cost more than it may */
	BACKOFF_DISCARD,    /* a single discard did */
	PACING_BACKOFFS,
};

struct pacing_totals {
	struct histogram reads;  /* everybody's, by their mean over some milliseconds */
	struct histogram syncs;  /* the canary's: what a bystander's sync of a little costs */
	struct histogram quanta; /* of ours, the sync included, while others were spared */
	uint64_t backoffs[PACING_BACKOFFS];
	uint64_t entries, bytes; /* removed and freed */
};

void pacing_totals_merge(struct pacing_totals *to, const struct pacing_totals *from);

/* "foreign-io", "reads", "quantum", "discard". */
const char *pacing_backoff_name(enum pacing_backoff b);
