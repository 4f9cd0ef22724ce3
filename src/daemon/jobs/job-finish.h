/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The end of a job. */
#pragma once

#include "job.h"

/* The job is over: recorded, told and logged, then gone from memory. What it still had of a
 * remainder (remainder.h) is left to the kernel. */
void job_finish(struct job *j, enum job_state s);
