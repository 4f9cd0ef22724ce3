/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Puts a job's staged names back: when it is cancelled or restored, and what a run has left. Not
 * before it is certain that no other host deletes in them (withdrawal.h). Never over anything: what
 * is in the way stays, and the name stays in staging (I7). */
#pragma once

#include "store/store.h"

struct job;

struct restore_result {
	uint64_t back, stuck;
	bool interrupted; /* reclaimd stops: what is not back may well go back later */
	int error;        /* of the first that is stuck */
	char text[512];   /* which, and why; escaped */
};

/* Somewhere else than where they were. */
struct restore_target {
	int fd;           /* the directory; -1: each into its own */
	const char *name; /* for a job of one name, or NULL */
	int view_fd; /* the mount table of the process that wants it, which must be able to write
		      * there; or -1 */
};

/* Names go where they were, or to a target, which lives, with its descriptors, until this is done;
 * NULL: none. They are recorded as `state`; those that cannot go back stay staged. done is called
 * once, later or in this call. The job belongs to no other part before and after. */
void restore_names(struct job *j, enum entry_state state, const struct restore_target *to,
		   void (*done)(struct job *j, const struct restore_result *result, void *userdata),
		   void *userdata);
