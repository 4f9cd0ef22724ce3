/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which names of a job are in staging, where the store does not know: after a crash, or when a
 * worker died while it moved them. */
#pragma once

#include "job.h"

/* Looks which names of a job are in staging, and records that. done is called once, later or in
 * this call. Not known: staging cannot be listed now, or another filesystem is mounted there; the
 * job stays as it is, and jobs->staging_changed is called after a second, if that may help, and
 * when mounts change. */
void staged_names_find(struct job *j, void (*done)(struct job *j, bool known, void *userdata),
		       void *userdata);
