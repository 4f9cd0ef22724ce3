/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a policy would do now, ready to be shown. */
#pragma once

#include "config/config.h"
#include "output.h"
#include "policy/rules.h"
#include "policy/scan.h"

struct policy_look {
	const struct config_policy *policy;
	const char *problem; /* why it could not be looked at; then there is nothing else */
	struct scan scan;
	struct policy_plan plan;
	int64_t now_nsec;
	bool open_known; /* all processes' open files were seen */
};

/* Prints. The entries come one by one: there may be millions. JSON is on one line, or with one for
 * each entry where it is to be pretty. */
void policy_look_print(const struct policy_look *l);
void policy_look_json(const struct policy_look *l, enum json_mode mode);

/* The table of all policies, and the same as JSON, the caller's. */
void policies_print(const struct config *c);
json_t *policies_json(const struct config *c);
