/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the last time has left: jobs in the store, and names in staging.
 *
 *   accepted   not all may be staged: staging is looked at; what is not there is deleted where it
 *              is. A record without names was never complete: it is forgotten
 *   held, queued, running   waits again; what runs was recorded as far as it had come
 *   paused     stays so; one that was being put back is put back
 *
 * Staging directories of jobs that are not in the store are never touched, only told of. */
#pragma once

#include "store/store.h"

struct job;
struct manager;

/* Reads unfinished jobs into memory. Before the store has its thread. */
int recover_load(struct manager *m, struct store *s);

/* They go on. */
void recover_begin(struct manager *m);

/* Looks which names of a job are in staging, and records that. done is called once, later or in
 * this call. Not known: staging cannot be looked at now; the job stays accepted and is looked at
 * again when mounts change. */
void recover_staged(struct job *j, void (*done)(struct job *j, bool known, void *userdata),
		    void *userdata);

/* Mounts have come or gone: those that could not be looked at are again. */
void recover_look_again(struct manager *m);

/* Looks for job directories without a job on all mounts, and tells of them. */
void recover_orphans(struct manager *m);
