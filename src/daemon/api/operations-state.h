/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What operations work on: operations.c and policy-work.c act, query.c reads, polkit-grant.c writes
 * down. */
#pragma once

#include <sys/queue.h>

#include "base/macros.h"
#include "daemon/jobs/jobs.h"

struct policy_last;
struct policy_work;
struct settling;

struct operations {
	struct jobs *jobs;
	LIST_HEAD(, settling) settlings; /* what is written back for other processes */
	unsigned n_settlings;
	LIST_HEAD(, policy_work)
	policy_works; /* plans and runs of policies that callers wait for */
	/* Of as many policies, which were the configuration's. */
	struct policy_last *policy_lasts;
	size_t n_policy_lasts;
	int (*reload)(void *userdata);
	void *userdata;
};

struct caller;
struct failure;

/* Whether the caller may do what concerns all users; and whether the daemon is about to end. Both
 * fill f. */
bool authorize_everybody(const struct caller *c, struct failure *f, const char *what);
bool operations_stopping(const struct operations *o, struct failure *f);

/* At the end: what callers wait for is answered. */
void policy_works_end(struct operations *o);
