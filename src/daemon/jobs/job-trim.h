/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs that trim: they tell the devices of a filesystem what is free there, step by step.
 *
 *   caller -> mount table: is that a mount point, and of a filesystem that can be trimmed?
 *          -> store: the job, which is queued; that is the answer
 *   its turn -> the mount point is opened and compared with the record -> trim-task.h
 *
 * They belong to root, have no names and nothing in staging, and queue apart from deletions. There
 * is one for each filesystem: another submit is answered with the number of the one that is there.
 *
 * What can fail, and what then is:
 *   record not durable      nothing was accepted
 *   mount point is gone,    the job fails and says so; nothing was trimmed of what is there now. It
 *   or another filesystem   does not wait: the next trim of the schedule is not far
 *   cannot be trimmed       the job fails and says why; a device that does not discard is no
 * failure the process dies        tried again, twice; then it fails: a trim is not a promise the
 * daemon dies         it is queued at the next start and begins anew. What was trimmed costs little
 * where the filesystem knows of it (ext4), and is trimmed once more where it does not */
#pragma once

#include "job.h"

/* As run_begin and run_stop (job-run.h), which call these. */
void trim_begin(struct job *j);
int trim_stop(struct job *j, void (*stopped)(struct job *j, void *userdata), void *userdata);
/* reclaimd ends: what has not stopped is left as it is, by its record queued. */
void trims_end(struct jobs *jobs);
