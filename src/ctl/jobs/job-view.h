/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All that the daemon knows of one job. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "ctl/common/client.h"

/* As many as there are. */
#define JOB_VIEW_ALL UINT32_MAX

/* Reads a job: an object with the keys that show.c tells, without problems and contents for a limit
 * of 0, otherwise with so many of each. The caller decrefs it. Returns 0 or an exit status, after
 * saying what failed. */
int job_view_get(struct client *c, uint64_t id, uint32_t limit, json_t **ret);
