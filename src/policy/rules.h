/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The rules of a policy, applied: a list of entries, the time and the free space in, a disposition
 * for each entry out. Pure; the same input gives the same plan, in whatever order the entries come.
 *
 *   1. What was found to be kept whatever the rules say, stays; so does what is in the future,
 *      which counts for nothing else either.
 *   2. Series by series, newest first: what a rule of keep keeps, stays; then what min-count and
 *      min-age hold. If there is a keep, the rest goes; what is older than max-age goes.
 *   3. Of what is left, max-files, max-size, min-free and min-free-inodes take as many as they
 * need, in the policy's order; nothing for the sake of space that frees none, nor of inodes. What
 *      they do not need stays.
 *
 * Then max-delete says how much of that one run lets go. Of what goes by 2, all or, if it is more
 * than that, nothing: a wrong pattern or clock shows in there being too much of it, and to delete
 * it bit by bit would only hide that. The limits of 3 know how much they need and begin with the
 * oldest, so they go up to max-delete, and on from there in the next run; with one entry at least,
 * or a large one would be in their way for ever. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "entries.h"
#include "policy.h"

struct policy_moment {
	int64_t now_nsec;
	uint64_t free_bytes, size_bytes; /* of the filesystem; 0: it does not tell */
	uint64_t free_inodes, inodes;    /* the same; 0: it has as many as there is space for */
	bool unbounded;                  /* max-delete does not matter */
};

struct policy_sum {
	uint64_t n, bytes;
};

/* All zero before. */
struct policy_plan {
	uint32_t *order; /* of the entries: by series and name of it, newest first */
	struct policy_sum matched, deleted;
	struct policy_sum refused; /* the rules want it to go, and it cannot */
	struct policy_sum excess; /* the rules want it to go, and max-delete keeps it in this run */
	/* In it is all that keep and max-age want to go; with a max-delete of 0%, all. */
	bool is_over;
	struct policy_sum dispositions[DISPOSITIONS]; /* without refused and excess */
	/* How much of the bytes that match deleted and excess are; where there are none at all, of
	 * the entries; with min-free-inodes, the larger of both. */
	double share;
	int64_t oldest_nsec; /* the time of the oldest that stays; INT64_MAX: there is none */
};

/* Fills *ret and the dispositions of all entries. Returns 0 or -ENOMEM. */
int rules_decide(struct policy_plan *ret, const struct policy *p, struct policy_entries *l,
		 struct policy_moment now);
void policy_plan_done(struct policy_plan *p);
