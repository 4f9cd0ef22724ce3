/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waiting for jobs to end, or for space to come back. */
#pragma once

#include <stdint.h>

#include "batches.h"
#include "ctl/common/client.h"

/* A subscription to the signal that the daemon sends when a job finishes. */
struct end_signals {
	sd_bus *bus;
	sd_bus_slot *slot;
	const uint64_t *ids; /* only these, if n_ids > 0 */
	size_t n_ids;
	bool received;
};

/* Subscribes; ids must stay as they are meanwhile. Returns 0 or a negative errno. */
int end_signals_open(struct end_signals *e, struct client *c, const uint64_t *ids, size_t n_ids);
void end_signals_close(struct end_signals *e);

/* What to return when it cannot be opened: CLIENT_LOST, or EXIT_FAILED after saying so. */
int end_signals_failed(int r);

/* Waits for so long, or until a job has finished. Returns 0, or a negative errno if the connection
 * is lost. */
int end_signals_wait(struct end_signals *e, uint64_t usec);

/* Waits until all these jobs have finished, and shows how far they are. Returns EXIT_DONE if all
 * are done, EXIT_PARTLY if some of it was not deleted, EXIT_FAILED if one failed, was cancelled or
 * restored, or another exit status. */
int wait_jobs(struct client *c, const struct options *o, const uint64_t *ids, size_t n);

/* Waits until as much is free on the filesystem of a path as o->free says. Returns EXIT_FAILED when
 * no unfinished job is left there that could free more. */
int wait_free(struct client *c, const struct options *o, const char *path);

/* The same for all filesystems of what was submitted, one after the other. */
int wait_free_all(struct client *c, const struct options *o, const struct batches *b);
