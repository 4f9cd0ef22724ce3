/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The plan for one path: what would be deleted, how, and what could not be. plan-text.c prints it,
 * plan-json.c encodes it. */
#pragma once

#include "engine/engine.h"
#include "ctl/common/options.h"
#include "surroundings.h"
#include "survey.h"

enum plan_verdict {
	VERDICT_DELETE,  /* everything would be deleted */
	VERDICT_PARTLY,  /* some entries cannot be deleted */
	VERDICT_BLOCKED, /* no entry can be deleted */
	VERDICT_REFUSED, /* a submit of this path would be refused */
	VERDICT_MISSING, /* the path does not exist */
};

struct plan {
	const char *path; /* as the user typed it */
	enum plan_verdict verdict;
	const char *reason; /* why the path is refused; NULL if it is not. If set, the fields below
			       are empty. */

	struct findings f;
	const struct holders *holders;
	struct surroundings around;

	struct fs_profile profile;
	char strategy[128];
	enum backend backend; /* backend and lanes that a run starts with */
	unsigned lanes;
	int last_reference; /* result of last_reference_check() */
};

/* Returns the name of a verdict in JSON, such as "delete". */
const char *verdict_name(enum plan_verdict v);

/* Returns the name of the file type in `mode`, such as "directory". */
const char *mode_name(uint32_t mode);

/* Returns what a run would do with files of ENGINE_LARGE_FILE or more, and why. */
const char *plan_large_files(const struct plan *p);

/* Prints the plan. `o` is the result of plan_json(). */
void plan_print(const struct plan *p, const json_t *o);

/* Returns the plan as an object with the keys that plan.c describes. */
json_t *plan_json(const struct plan *p);
