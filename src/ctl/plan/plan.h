/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Everything that `plan` has to say about one path; plan-text.c and plan-json.c say it. */
#pragma once

#include "engine/engine.h"
#include "moosefs/space-return.h"
#include "ctl/common/options.h"
#include "ctl/devices/discard-setup.h"
#include "surroundings.h"
#include "survey.h"

enum plan_verdict {
	VERDICT_DELETE,  /* all of it would go */
	VERDICT_PARTLY,  /* some of it would have to stay */
	VERDICT_BLOCKED, /* nothing of it would go */
	VERDICT_REFUSED, /* it would not be taken in: protected, or no path that may be given */
	VERDICT_MISSING, /* it does not exist */
};

struct plan {
	const char *path; /* as given */
	enum plan_verdict verdict;
	const char *reason; /* of a refusal; with it, nothing below is filled in */

	struct findings f;
	const struct holders *holders;
	struct surroundings around;
	struct discard_setup discards;
	struct keeping keeping;

	struct fs_profile profile;
	char strategy[128];
	enum backend backend; /* that a run begins with */
	unsigned lanes;
	int last_reference; /* as last_reference_check returns */

	uint64_t warm_usec,
		cold_usec; /* that it takes: all that is needed is in memory; nothing is */
	json_t *costs;     /* what makes it expensive: a sentence each */
};

/* The word for a verdict in JSON: "delete", ... */
const char *verdict_name(enum plan_verdict v);

/* "file", "directory", ... */
const char *mode_name(uint32_t mode);

/* Does a run have more than one directory in flight, if not to begin with? */
bool plan_spreads(const struct plan *p);

/* Is it on a filesystem of this type? */
bool plan_is_on(const struct plan *p, const char *type);

/* estimate.c: fills in how long it takes, from all that was found. */
void plan_estimate(struct plan *p);

/* estimate.c: how many times as fast entries go when they are spread over directories, on two
 * lanes; 1 where it runs on one. */
double plan_spread_gain(const struct plan *p);

/* plan-costs.c: finds what makes this deletion expensive. */
void plan_costs(struct plan *p);

/* plan-costs.c: does the kernel discard what is freed? And with it what is free already? */
bool plan_discards(const struct plan *p);
bool plan_discards_rest(const struct plan *p);

/* plan-costs.c: what would be done about files of ENGINE_LARGE_FILE and more, and why. */
const char *plan_large_files(const struct plan *p);

/* plan-text.c: for people; `o` is what programs are told. */
void plan_print(const struct plan *p, const json_t *o);

/* plan-json.c: for programs, as described in plan.c. */
json_t *plan_json(const struct plan *p);
