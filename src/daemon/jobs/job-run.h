/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Deletes a job's names: chunk by chunk, directory by directory within a chunk, through a worker.
 *
 *   chunk of names <- store;  for each directory of them: open it (intake worker), delete (delete
 *   worker);  what became of them -> store;  next chunk;  at the end what is left is put back
 *
 * That names are gone is recorded when their chunk is. After a crash in between they are asked to
 * be deleted again, are not there, and that is all right. What was found to be another file, or
 * could not be deleted, is never tried again by itself.
 *
 * A worker that dies costs the job a retry and nothing else, however often: only that a job that
 * gets no further waits longer and longer between them (retry.h). A mount or a staging directory
 * that is not there, or is no longer, lets the job wait until mounts change; a directory that is
 * another one than it was lets it pause, for a person to look (I7). */
#pragma once

#include "durability.h"
#include "stored-names.h"

struct chunk_ahead;

/* Is in this header because boost.c polls it once a second. */
struct job_run {
	struct job *job;
	struct jobs *jobs;
	struct chunk *chunk;
	size_t at, end; /* the names of the chunk that are being dealt with: one directory's */
	uint64_t next;  /* seq of the next chunk */
	struct chunk_ahead *ahead; /* the next chunk, which is read while this one is worked on */
	struct outcome *outcome;   /* of the chunk */
	struct run_item *items;
	char (*numbers)[24];  /* the names of items in staging */
	bool *kept;           /* by index in the chunk from `at` on */
	uint64_t errors_told; /* of `errors` */

	int staged_fd;              /* the job's own directory */
	int origin_fd;              /* of the names where they were */
	struct worker *own_worker;  /* where names were; that of staging is the area's */
	struct run_progress before; /* of the record, as this run began */
	bool uses_area;
	bool frees_remainder;  /* what it had left of large files goes first */
	sd_event_source *tell; /* how far it is, while the worker works on what takes long */
	bool short_of_space, short_of_time;
	uint64_t heard, heard_usec;     /* how far it was when it got further last, by now_usec */
	uint64_t begun_usec, first_seq; /* by context_clock; the first name of this run */

	unsigned unread; /* attempts to read the next chunk */
	uint64_t gone, missing, left;
	bool was_certain; /* job_knows_staged() before this run */

	/* A rename may be lost with the power though what is on record is not. So names that ought
	 * to be in staging, and are not, are looked for once more, where they were: `unmoved`. */
	bool unmoved;
	/* With a fleet: other hosts are waited for; nothing more is given away; and what is not in
	 * staging any more then, another host has deleted. */
	bool with_hosts, alone, all_staged;
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
	/* So many chunks of staged names are gone, but not durably: they are flushed with those
	 * that follow. What became of them goes on record then. */
	unsigned owed;
	void (*then)(struct job_run *run); /* when what is owed has been flushed */
	uint64_t errors, skipped;          /* of the names that wait for it */

	/* With a fleet (sharing.h). */
	uint64_t given; /* units that other hosts may have */
	char **told;    /* paths of problems, of the pass before that */
	size_t n_told;
	uint64_t errors_before, skipped_before; /* of the record, as this run began */
	void (*then_leave)(struct job *j);      /* once no other host has a part of it; or NULL */

	/* What the names leave to be written back is paid before the job ends (pacers.h). */
	struct debt_hold *debt;
	struct settlement *settlement; /* NULL: that is not waited for */
	void (*stopped)(struct job *j, void *userdata);
	void *stopped_userdata;
};

/* Also of a job that trims, which job-trim.h does. The job is in no queue. It ends with job_finish,
 * or waits again. boost.h is told by the caller.
 */
void run_begin(struct job *j);

/* Stops it at the next entry. What is left of a large file that is being freed is held as the job's
 * remainder (remainder.h). stopped is called once the job belongs to no other part: it is running
 * still by its state, and the caller decides what is next, or it has finished meanwhile. Only one
 * stop at a time: -EBUSY for another. */
int run_stop(struct job *j, void (*stopped)(struct job *j, void *userdata), void *userdata);

/* Mounts have changed. Of a job that runs: if its mount was detached (umount -l), it is stopped and
 * waits until its filesystem is mounted again, and what it has open is closed. */
void run_check_mount(struct job *j);

/* reclaimd ends: the worker that deletes where names were, if it has one, is ended at once. (That
 * of a staging area is the area's.) What it had done is recorded. */
void run_end_worker(struct job *j);
