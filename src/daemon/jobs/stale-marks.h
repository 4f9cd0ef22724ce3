/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Marks of this host (worker/marks.c) that no job needs any more: the daemon was killed after a job
 * had ended, and before its mark was removed. */
#pragma once

#include "job.h"

/* Removes, in that host's part of .reclaim on that mount, the marks whose job is not here and whose
 * directory is not there; none, unless the part was this daemon's. A mark of a job on record is
 * never removed, nor one whose directory is there: whatever has become of its job, other hosts may
 * be deleting in it. done is called later, when they were looked through. Returns 0; or -ENOMEM or
 * what asking a worker says, and no callback. */
int stale_marks_remove(struct jobs *jobs, const char *mount, const char *host,
		       void (*done)(void *userdata), void *userdata);
