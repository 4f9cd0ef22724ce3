/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What spools offer becomes jobs: with the authority the spool found, as any other submit, so that
 * limits, protection and the record are the same. A name that is another entry by the time it is
 * accepted refuses the batch.
 *
 * And what jobs put back, spools are told of: no spool is served before it is read from the job
 * store what was put back by those before. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/spools/spool.h"

struct operations;

/* All zeroes: not begun. It outlives the jobs, as batches may be answered after spooling_end. */
struct spool_jobs {
	struct context *context;
	struct operations *operations;
	struct spools *spools; /* NULL: they could not be begun, or have ended */
	struct listener listener;
	bool reads, knows; /* what was put back: it is being read, it is known */
};

/* Serves the spools of the configuration, and logs where not all can be watched. Before jobs go on
 * which may put something back. */
void spooling_begin(struct spool_jobs *s, struct context *c, struct operations *operations);
void spooling_end(struct spool_jobs *s);
/* The configuration has changed. The one before must still be there. */
void spooling_configure(struct spool_jobs *s);
