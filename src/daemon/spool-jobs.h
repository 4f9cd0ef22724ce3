/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What spools offer becomes jobs: with the authority the spool found, as any other submit, so that
 * limits, protection and the record are the same. A name that is another entry by the time it is
 * accepted refuses the batch. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/spools/spool.h"

struct operations;

/* All zeroes: not begun. It outlives the jobs, as batches may be answered after spooling_end. */
struct spool_jobs {
	struct context *context;
	struct operations *operations;
	struct spools *spools; /* NULL: they could not be begun, or have ended */
};

/* Serves the spools of the configuration, and logs where not all can be watched. */
void spooling_begin(struct spool_jobs *s, struct context *c, struct operations *operations);
void spooling_end(struct spool_jobs *s);
/* The configuration has changed. The one before must still be there. */
void spooling_configure(struct spool_jobs *s);
