/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Limits: which of the entries that no rule keeps must go so that max-files, max-size,
 * max-size-per-series, min-free and min-free-inodes hold; how much of that one run may delete
 * (max-delete); and which limits remain unmet. Pure: the same input gives the same result, in
 * whatever order the entries come.
 *
 * The limits take entries in the policy's order until the limits hold, and count what the set of
 * these entries frees (entries.h): names of one file count together. An entry whose files all have
 * names elsewhere is taken only if that frees them. Units and chains (retention.h) are taken as
 * wholes, and are as old as their newest entry.
 *
 * max-delete is a share of what matches: the largest of the share of the bytes freed, of the bytes
 * in the entries, and of their number.
 *
 *   - keep and max-age delete all that they want in a run, or nothing if it is more than
 *     max-delete. A wrong pattern or a wrong clock shows itself by wanting too much, and deleting
 *     it bit by bit would only hide that.
 *   - Limits delete up to max-delete in each period (result.h), one entry at least, and the rest in
 *     later periods. Without the period a watched policy would start the next run at once, and
 *     max-delete would mean nothing.
 *
 * A limit that cannot be met is reported. If it cannot be met now (entries are too young, open or
 * kept), or if other programs fill the filesystem, the limit still deletes what it may, up to
 * max-delete. If entries that can never be deleted exceed max-files or max-size by themselves, no
 * deletion will ever help, so that limit deletes nothing. The same holds for a unit with such an
 * entry, and for each series with max-size-per-series. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "entries.h"
#include "policy.h"

enum limit { LIMIT_FILES, LIMIT_SERIES_SIZE, LIMIT_SIZE, LIMIT_FREE, LIMIT_INODES, LIMITS };

struct policy_sum {
	uint64_t n, bytes;
};

/* What a limit has after the run, and what it demands: entries, bytes or inodes. */
struct limit_shortage {
	bool is_unmet;
	bool is_hopeless;      /* entries that can never be deleted exceed it */
	uint64_t have, wanted; /* of LIMIT_FREE and LIMIT_INODES, what is free */
	uint64_t all;          /* size of the filesystem, or its inodes; 0 for other limits */
	const char *series;    /* of LIMIT_SERIES_SIZE, the largest series; else NULL */
};

/* All zero before. */
struct policy_plan {
	uint32_t *order; /* of the entries: by series and its name, newest first */
	struct policy_sum matched, deleted;
	struct policy_sum refused; /* the rules want to delete these, and they cannot be deleted */
	struct policy_sum excess;  /* max-delete keeps these in this run */
	/* excess contains all that keep and max-age want to delete; with a max-delete of 0%, all */
	bool is_over;
	struct policy_sum dispositions[DISPOSITIONS]; /* without refused and excess */
	uint64_t kept[DISPOSITIONS]; /* number of entries that stay, by what keeps them */
	/* share of what matches that deleted and excess are, with what the limits deleted earlier
	 * in this period */
	double share;
	struct policy_set limited; /* what the limits delete in this run */
	struct limit_shortage shortages[LIMITS];
	int64_t oldest_nsec; /* the time of the oldest that stays; INT64_MAX: there is none */
};

/* Completes the plan, and the dispositions of the entries, after retention_decide. Returns 0 or
 * -ENOMEM. */
int limits_decide(struct policy_plan *plan, const struct policy *p, struct policy_entries *l,
		  const struct policy_moment *now);

/* After some entries that were to go were kept, keeps the other entries of their units and chains,
 * too. Returns the sum of the entries that still go. `order` is that of the plan. */
struct policy_sum limits_deleted(struct policy_entries *l, const uint32_t *order);

/* Returns true if a limit does not hold after the run. */
bool limits_are_unmet(const struct policy_plan *plan);

/* "max-files", "max-size", ... */
const char *limit_name(enum limit limit);

/* Room for limit_words. */
#define LIMIT_WORDS 512

/* Describes an unmet limit and what keeps the entries: "min-free is not reached: 10 % free, 50 %
 * wanted: 12 entries are younger than min-age, 3 are open". Returns buf. */
char *limit_words(char buf[static LIMIT_WORDS], const struct policy *p,
		  const struct policy_plan *plan, enum limit limit);
