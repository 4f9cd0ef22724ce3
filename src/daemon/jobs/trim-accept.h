/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From a mount point to a job that trims (job-trim.h has its way from there). */
#pragma once

#include "daemon/context/failure.h"
#include "job.h"

/* f->cause is ERROR_NONE on success. */
typedef void (*trim_submitted_t)(const struct failure *f, uint64_t id, void *userdata);

/* Accepts a trim of the filesystem that is mounted at `mount`. Answers once, in this call or later:
 * when the job is durable. origin is static. */
void trim_submit(struct jobs *jobs, const char *mount, uint64_t min_bytes, const char *origin,
		 trim_submitted_t done, void *userdata);

/* The mount whose mount point this is just now, or NULL; the mount table's. */
const struct mount *trim_mount_find(struct context *c, const char *path);

/* Opens the root of a filesystem, with its identity, by its mount point. Not of one that may hang:
 * the mount table tells that. Returns a descriptor or a negative errno. */
int trim_root_open(const char *mount, struct lasting_identity *ret_id);
