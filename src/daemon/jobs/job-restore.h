/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Puts a job's staged names back: when it is cancelled or restored, and what a run could not
 * delete. Waits until it is certain that no other host deletes in them (withdrawal.h). Never
 * replaces anything: if something is in the way, the name stays in staging (I7).
 *
 * Other programs and people may have removed names from staging. A name that is neither in staging
 * nor in its place is lost if the record is certain that reclaimd has not deleted it, else gone. */
#pragma once

#include "store/store.h"

struct job;

struct restore_result {
	uint64_t back;
	uint64_t stuck; /* still in staging, or it is unknown where */
	uint64_t lost;  /* recorded as ENTRY_LOST, with a problem for each */
	uint64_t gone;
	bool interrupted;     /* reclaimd stops: what is not back may well go back later */
	bool elsewhere_helps; /* a stuck name could go to another directory */
	int error;            /* of the first stuck name */
	char text[512];       /* the first stuck name and the reason; escaped */
	char lost_text[1024]; /* paths of lost names, as many as fit; escaped */
};

/* Somewhere else than where they were. */
struct restore_target {
	int fd;           /* the directory; -1: each into its own */
	const char *name; /* for a job of one name, or NULL */
	int view_fd; /* the mount table of the process that wants it, which must be able to write
		      * there; or -1 */
};

/* Moves names to where they were, or to a target, which must live, with its descriptors, until this
 * is done; NULL: none. Records them as `state`: ENTRY_RESTORED, or ENTRY_KEPT if they could not be
 * deleted. Those that cannot go back stay staged. Calls done once, later or in this call. The job
 * belongs to no other part before and after. */
void restore_names(struct job *j, enum entry_state state, const struct restore_target *to,
		   void (*done)(struct job *j, const struct restore_result *result, void *userdata),
		   void *userdata);
