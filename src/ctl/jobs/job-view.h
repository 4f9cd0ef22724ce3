/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All that the daemon knows of one job: its properties, and what it consists of. Owns what it has
 * read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/common/client.h"

struct job_problem {
	char *path; /* raw bytes */
	char *what;
	int error; /* positive errno, or 0 */
	bool is_error;
};

struct job_name {
	char *path; /* raw bytes */
	char *state;
};

struct job_view {
	uint64_t id;
	char *uuid, *state, *origin, *priority, *inplace, *message, *strategy;
	char *path, *staging, *mount; /* raw bytes */
	uid_t uid;
	uint64_t names, entries, entries_done, bytes, bytes_freed, errors, skipped;
	uint64_t created_usec, held_until_usec, by_usec, started_usec, finished_usec;
	struct job_problem *problems; /* the first ones */
	size_t n_problems;
	struct job_name *entry_names; /* likewise */
	size_t n_entry_names;
};

/* Reads a job with up to so many of its problems and names (0: without them). Returns 0 or an exit
 * status. */
int job_view_get(struct client *c, uint64_t id, uint32_t limit, struct job_view *ret);
void job_view_done(struct job_view *j);
#define _cleanup_job_view_ _cleanup_(job_view_done)
