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
 * that is not there lets the job wait until mounts change; a directory that is another one than it
 * was lets it pause, for a person to look (I7). */
#pragma once

#include "job.h"

/* The job is in no queue. It ends with job_finish, or waits again. boost.h is told by the caller.
 */
void run_begin(struct job *j);

/* Stops it at the next entry. keep: what is left of a large file that is being freed is held as the
 * job's remainder (remainder.h); else the kernel frees it at once. stopped is called once the job
 * belongs to no other part: it is running still by its state, and the caller decides what is next,
 * or it has finished meanwhile. Only one stop at a time: -EBUSY for another. */
int run_stop(struct job *j, bool keep, void (*stopped)(struct job *j, void *userdata),
	     void *userdata);

/* reclaimd ends: the worker that deletes where names were, if it has one, is ended at once. (That
 * of a staging area is the area's.) What it had done is recorded. */
void run_end_worker(struct job *j);
