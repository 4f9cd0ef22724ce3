/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What operations work on: operations.c acts, query.c reads, polkit-grant.c writes down. */
#pragma once

#include "daemon/jobs/jobs.h"

struct operations {
	struct jobs *jobs;
	int (*reload)(void *userdata);
	void *userdata;
};
