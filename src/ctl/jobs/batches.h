/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which names go to the daemon in which call: each call becomes a job, all of a job is on one
 * mount, and a message holds only so many descriptors. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/guard/roots.h"

/* So many directories a call at most, and so many names in the message itself; more are handed over
 * in files. */
#define BATCH_DIRS_MOST 120U
#define BATCH_NAMES_MOST 1000U

struct call_batch {
	struct root_group **groups; /* the batches' own order of the roots' groups */
	size_t n, names;
	bool lists; /* SubmitLists: names in files, and no error if one is missing */
};

struct batches {
	struct call_batch *v;
	size_t n;
	struct root_group **order;
};

void batches_done(struct batches *b);

/* Divides what has been accepted. The roots must stay as they are meanwhile. Returns 0 or -ENOMEM.
 */
int batches_make(struct batches *ret, const struct roots *r, unsigned fds_most);
