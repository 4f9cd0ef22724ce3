/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All that the daemon knows of one job: its properties, and what it consists of. Owns what it has
 * read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/common/client.h"
#include "job-list.h"

struct job_problem {
	char *path; /* raw bytes */
	const char *what;
	int error; /* positive errno, or 0 */
	bool is_error;
};

struct job_name {
	char *path; /* raw bytes */
	const char *state;
};

struct job_view {
	sd_bus_message *answers[3]; /* in which the texts are */
	struct job_line line;       /* as lists have it; its path is that below */
	const char *uuid, *inplace, *message, *strategy;
	char *path, *staging, *mount; /* raw bytes */
	uint64_t names, skipped, by_usec;
	struct job_problem *problems; /* the first ones */
	size_t n_problems;
	struct job_name *entry_names; /* likewise */
	size_t n_entry_names;
};

/* Reads a job with up to so many of its problems and names (0: without them). The
 * caller frees it with job_view_done(). Returns 0 or an exit status, after saying what failed. */
int job_view_get(struct client *c, uint64_t id, uint32_t limit, struct job_view *ret);
void job_view_done(struct job_view *j);
#define _cleanup_job_view_ _cleanup_(job_view_done)
