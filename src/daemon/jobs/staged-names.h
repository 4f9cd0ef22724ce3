/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds out what is in staging if the record does not say so: after a crash, after a worker died
 * while it moved names, and after another process removed a staging directory. */
#pragma once

#include "job.h"

/* Lists staging for the names of a job and records those that are there. Calls done once, later or
 * in this call. If they are not known, staging cannot be listed now, or another filesystem is
 * mounted there. The job stays as it is, and jobs->staging_changed is called after a second, if
 * that may help, and when mounts change. */
void staged_names_find(struct job *j, void (*done)(struct job *j, bool known, void *userdata),
		       void *userdata);

/* Checks whether the filesystem at the job's mount point is the one that its names were on: by a
 * directory that a name was in, or else by the filesystem's lasting id. Calls done once, later or
 * in this call, with 0, with -ESTALE if it is another filesystem or there is nothing to tell by, or
 * with an error that passes (retry_helps()). */
void staged_filesystem_check(struct job *j, void (*done)(struct job *j, int r, void *userdata),
			     void *userdata);
