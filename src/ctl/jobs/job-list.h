/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs as the daemon's ListJobs tells of them. Owns what it has read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/common/client.h"

struct job_line {
	uint64_t id;
	uid_t uid;
	/* The list's, as long as it lives; path, of the first name, is raw bytes. Where all but the
	 * path are as of the line before, they are the same texts. */
	const char *state, *origin, *priority, *path;
	uint64_t entries, entries_done, bytes, bytes_freed, errors;
	uint64_t created_usec, held_until_usec, started_usec,
		finished_usec; /* CLOCK_REALTIME, or 0 */
};

struct job_answer {
	struct job_answer *next;
	sd_bus_message *m;
};

/* How much came last. */
struct job_page {
	size_t n, bytes;
};

/* All zero is an empty list. */
struct job_list {
	struct job_line *v;
	size_t n, cap;
	struct job_answer *answers; /* in which the texts are */
	struct job_page page;
};

void job_list_done(struct job_list *l);
#define _cleanup_job_list_ _cleanup_(job_list_done)

struct job_wish {
	bool finished;       /* those too */
	const char *state;   /* only these, or NULL */
	uint32_t limit;      /* no more than these; 0: all */
	const uint64_t *ids; /* only these, if n_ids > 0; then finished ones too */
	size_t n_ids;
};

/* Asks for jobs, in the order of their ids. Returns 0 or an exit status; the list is emptied first.
 */
int job_list_get(struct client *c, const struct job_wish *wish, struct job_list *ret);

/* The same, but that the jobs are given to `some` in parts as they come, while more are on their
 * way, and are not kept but for the texts: in the end *ret has no more than those, and *ret_n is
 * how many jobs there were. What `some` returns other than 0 ends it and is returned. */
int job_list_each(struct client *c, const struct job_wish *wish, struct job_list *ret,
		  size_t *ret_n, int (*some)(const struct job_line *v, size_t n, void *userdata),
		  void *userdata);

bool job_is_finished(const char *state);
