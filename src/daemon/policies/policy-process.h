/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process that says what a policy would do now, or does it: reclaimctl policy plan and policy
 * run. The daemon itself neither scans nor may see what other processes have open; so the service
 * manager starts them, with the rights for that. Where it does not, or the configuration is another
 * than the unit's, they are children of ours. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "daemon/context/context.h"

/* What a plan may be long. */
#define POLICY_PLAN_BYTES_MOST MiB(4)

struct policy_process;

/* It has ended; went_well: with exit status 0. output, of a plan: what it said, of `len` bytes and
 * a NUL, or NULL: it said more than is taken, and was stopped. Not called in policy_process_new. */
typedef void (*policy_process_ended_t)(bool went_well, const char *output, size_t len,
				       void *userdata);

/* Begins; c and name outlive it. Returns 0 or a negative errno. */
int policy_process_new(struct policy_process **ret, struct context *c, const char *name, bool run,
		       policy_process_ended_t ended, void *userdata);
/* What still runs is no longer waited for: a unit goes on, a child ends. Also from `ended`. NULL is
 * accepted; returns NULL. */
struct policy_process *policy_process_free(struct policy_process *p);
