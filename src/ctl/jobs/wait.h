/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waiting for jobs to end, or for space to come back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "batches.h"
#include "ctl/common/client.h"
#include "ctl/output/progress.h"

/* No exit status: it is not there yet. */
#define WAIT_ON 254

/* Something that is waited for. */
struct waiter {
	struct client *client;
	const struct options *o;
	const uint64_t *ids; /* the jobs whose end may matter; n_ids 0: those of all */
	size_t n_ids;
	uint64_t every_usec; /* how often to look, whatever ends */
	/* Looks whether it is there, and shows how far it is. Returns WAIT_ON or an exit status. */
	int (*step)(struct waiter *w);
	void *userdata;

	bool begins;               /* with the first step on a connection */
	bool ended;                /* a job, since the last step */
	struct progress *progress; /* a bar that is drawn, or NULL */
	bool drawn;                /* another line is, which is to be cleared */
};

/* Calls step until it returns anything else, and returns that. The daemon tells when a job ends;
 * one that ends itself, as for a restart, is waited for. */
int wait_until(struct waiter *w);

/* Waits until all these jobs have finished, and shows how far they are. The ids ascend. Returns
 * EXIT_DONE if all are done, EXIT_PARTLY if some of it was not deleted, EXIT_FAILED if one failed,
 * was cancelled or restored, or another exit status. */
int wait_jobs(struct client *c, const struct options *o, const uint64_t *ids, size_t n);

/* Waits until as much is free on the filesystem of a path as o->free says. Returns EXIT_FAILED when
 * no unfinished job is left there that could free more. */
int wait_free(struct client *c, const struct options *o, const char *path);

/* The same for all filesystems of what was submitted, one after the other. */
int wait_free_all(struct client *c, const struct options *o, const struct batches *b);
