/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A run as job-run.c has it, and as boost.c polls it once a second. */
#pragma once

#include "durability.h"
#include "stored-names.h"
#include "outcome.h"

struct job_run {
	struct job *job;
	struct jobs *jobs;
	struct chunk *chunk;
	size_t at, end; /* the names of the chunk that are being dealt with: one directory's */
	uint64_t next;  /* seq of the next chunk */
	struct outcome *outcome; /* of the chunk */
	struct run_item *items;
	char (*numbers)[24];  /* the names of items in staging */
	bool *kept;           /* by index in the chunk from `at` on */
	uint64_t errors_told; /* by this run of the worker */

	int staged_fd; /* the job's own directory */
	int origin_fd; /* of the names where they were */
	struct worker *worker, *own_worker;
	struct run_progress before; /* of the record, as this run began */
	bool worker_runs, uses_area;
	bool frees_remainder;  /* what it had left of large files goes first */
	sd_event_source *tell; /* how far it is, while the worker works on what takes long */
	bool short_of_space, short_of_time;
	uint64_t heard, heard_usec;     /* how far it was when it got further last, by now_usec */
	uint64_t begun_usec, first_seq; /* by context_clock; the first name of this run */

	unsigned unread; /* attempts to read the next chunk */
	uint64_t gone, missing, left;

	/* A rename may be lost with the power though what is on record is not. So names that ought
	 * to be in staging, and are not, are looked for once more, where they were: `unmoved`. */
	bool unmoved;
	uint64_t lost; /* names that are not where they were looked for */
	int absent;    /* why there was nothing in staging to be looked into, or 0 */
	bool waits;    /* for a mount, if that is so; or for a person */
	/* The job's directory is gone, and all that was in it: where such
	 * directories are, none is this one any more, by name or identity. What is not where it was
	 * either, in a directory that still is the same one, is then gone. */
	bool removed;
	bool seen; /* while that is looked for: it is there */

	/* All its names have been dealt with, but not durably: durability.h has it. */
	struct unflushed unflushed;
	uint64_t errors, skipped; /* of the names that wait for it */
	void (*stopped)(struct job *j, void *userdata);
	void *stopped_userdata;
};
