/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What operations work on: operations.c acts, query.c reads, polkit-grant.c writes down. */
#pragma once

#include <sys/queue.h>

#include "base/macros.h"
#include "daemon/jobs/jobs.h"

struct settling;

struct operations {
	struct jobs *jobs;
	LIST_HEAD(, settling) settlings; /* what is written back for other processes */
	unsigned n_settlings;
	int (*reload)(void *userdata);
	void *userdata;
};
