/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What spools offer becomes jobs: with the authority the spool found, as any other submit, so that
 * limits, protection and the record are the same. A name that is another entry by the time it is
 * accepted refuses the batch. */
#pragma once

#include "daemon/api/dbus/bus.h"
#include "daemon/context/context.h"

struct operations;
struct spool_jobs;

/* Serves the spools of the configuration. *ret is set also where not all can be watched. Returns 0
 * or a negative errno. */
int spooling_begin(struct spool_jobs **ret, struct context *c, struct operations *operations);
/* Batches that are not answered yet still may be. NULL is accepted; returns NULL. */
struct spool_jobs *spooling_end(struct spool_jobs *s);
/* The configuration has changed. Returns 0 or a negative errno. */
int spooling_configure(struct spool_jobs *s);
/* What was not taken may be now. NULL is accepted. */
void spooling_retry(struct spool_jobs *s);
/* Fills at most n views; returns how many spools there are. NULL is accepted. */
size_t spooling_view(const struct spool_jobs *s, struct bus_spool *views, size_t n);
