/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What became of the last runs of policies: reclaimctl policy run leaves it in the state directory
 * (policy/result.h). Read again where it has changed. */
#pragma once

#include <time.h>

#include "policy/result.h"

/* Of what a run says, so many lines are kept. */
#define POLICY_WHY_MOST 32

struct policy_last {
	struct policy_result r;               /* all zero: there was no run, or it cannot be read */
	const char *why[POLICY_WHY_MOST + 1]; /* the lines of it, NULL-terminated */
	/* What the file was like when it was read. */
	struct timespec changed;
	char name[80];
};

/* Keeps one for each policy, which may become another's: all zero is none. */
void policy_last_update(struct policy_last *l, const char *state_dir, const char *name);
