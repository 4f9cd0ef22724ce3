/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Large files without a name that are being freed in steps, or wait for that. Were the worker's
 * descriptor the only one, the kernel would free all that is left at once when the worker ends. So
 * there is one here, and one in the descriptor store, which outlives this daemon
 * (daemon/context/descriptor-store.h); only the machine takes all of them along.
 *
 * Which job each is of, and how much of it the job's record does not count yet, is in a table in
 * memory, which is kept in the descriptor store, too: it is of use exactly as long as they are, and
 * no disk has to be written for it. What comes back is known by device, inode and birth time, and
 * not by what it is called in the store; and it is only touched under the lease that was taken on
 * it before its name went (I5), without which it is closed. */
#pragma once

#include "job.h"

struct shrinking_file {
	SLIST_ENTRY(shrinking_file) link; /* in the job's list */
	unsigned slot;
	int fd;
};

/* Takes the files that the previous daemon left out of the descriptor store. Returns 0 or a
 * negative errno. */
int shrinking_open(struct jobs *jobs);
/* Returns true if the previous daemon left a file of the job. */
bool shrinking_has(const struct jobs *jobs, uint64_t job);
/* Gives each of these files to its job, and counts in the job's record what was freed of it. Closes
 * those that belong to no job, or that cannot be recognised. */
void shrinking_begin(struct jobs *jobs);
/* What is left stays in the descriptor store, which is logged. */
void shrinking_end(struct jobs *jobs);

/* A worker of the job says that it frees this file, which took so many bytes. Takes fd over. What
 * does not look like that, and what there is no room for, is closed. */
void shrinking_add(struct job *j, int fd, uint64_t bytes);

/* Lets go of those that are freed, or are not ours any more. True if any is left. */
bool shrinking_is_left(struct job *j);

/* What is left of them takes so much on the disk. */
uint64_t shrinking_bytes(const struct job *j);

/* Their worker has stopped, and the job's record counts what it has freed of them; also their
 * names, or else these are counted now: a worker that was killed told only of names before them. */
void shrinking_counted(struct job *j, bool names);

/* Lets go of all of them: the kernel frees them, where no worker has them. */
void shrinking_drop(struct job *j);
