/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs as the daemon's ListJobs tells of them. Owns what it has read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "ctl/common/client.h"

struct job_line {
	/* As answers have them, in that order; times are CLOCK_REALTIME, or 0. */
	uint64_t id, uid, entries, entries_done, bytes, bytes_freed, errors;
	uint64_t created_usec, held_until_usec, finished_usec, started_usec;
	uint64_t rate_bytes, expected_end_usec, by_usec, names;
	/* The list's, as long as it lives; path, of the first name, is raw bytes. */
	const char *state, *origin, *priority, *path, *kind, *message;
	bool settling;    /* where it was asked for: all is deleted */
	const char *host; /* of a fleet, where jobs of several are shown; NULL: of this one */
};

/* All zero is an empty list. */
struct job_list {
	struct job_line *v;
	size_t n;
	sd_bus_message **answers; /* in which the texts are */
	size_t n_answers;
};

void job_list_done(struct job_list *l);
#define _cleanup_job_list_ _cleanup_(job_list_done)

struct job_wish {
	bool finished;      /* those too */
	const char *states; /* only in these, with commas between them, or NULL */
	bool one_user;      /* only those of this one */
	uid_t uid;
	uint32_t limit;      /* no more than these; 0: all */
	const uint64_t *ids; /* only these, if n_ids > 0; then finished ones too */
	size_t n_ids;
};

/* Asks the daemon for jobs, in the order of their ids. The list is emptied first; the caller frees
 * it with job_list_done(), after a failure too. Returns 0 or an exit status, after saying what
 * failed. */
int job_list_get(struct client *c, const struct job_wish *wish, struct job_list *ret);

/* Asks of a running job whether all is deleted, and only what that leaves is written back. */
void job_line_settling(struct client *c, struct job_line *j);

/* Whether a job in this state will not change any more. */
bool job_is_finished(const char *state);
