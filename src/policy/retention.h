/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Retention: what the rules of a policy keep in each series, before any limit applies. Pure, but
 * for the time zone, which is that of the process.
 *
 * The rules apply to units. Without unit-by each entry is one. A unit is as old as its newest
 * entry, and stays if one of its entries stays.
 *
 * Within a series the units are in order, the newest first. A unit that one of the rules of keep,
 * min-count or min-age keeps, stays. If the policy has a keep, every other unit is to be deleted.
 * Otherwise units older than max-age are to be deleted, and the rest is left to the limits.
 *
 * With chain-start, a unit that matches it and the newer units up to the next match are a chain.
 * The rules apply to each unit by itself, and a chain stays if one of its units does: an
 * incremental backup is worth nothing without those that it is based on.
 *
 * keep has the meaning that `restic forget` gives to its --keep-* options. A rule for a period
 * keeps the newest unit of each of the latest n periods that have one; `last` keeps the latest n
 * units; `within` keeps units younger than a time span, which ends at the newest unit. Weeks are
 * those of ISO 8601. A rule other than `within` that has kept fewer than n also keeps the oldest
 * unit of the series. A unit that any rule keeps is kept. restic has this meaning since 0.16; a
 * test compares with 0.18. */
#pragma once

#include "entries.h"
#include "policy.h"

#define PERIOD_SIZE 17

/* The state of the rules of keep in one series; all zero before its first time. */
struct periods {
	uint64_t used[KEEP_WITHIN];
	char seen[KEEP_WITHIN][PERIOD_SIZE]; /* the period that each rule kept a unit of last */
	int64_t newest_nsec;
	bool begun;
};

/* Takes the next time of the series, which is not newer than the one before; is_oldest for the
 * last one. Returns the rules that keep it as bits (1 << KEEP_DAILY), 0 for none. Sets *ret_oldest
 * to those of them that keep it only because it is the oldest. */
unsigned periods_step(struct periods *s, const struct policy_keep *k, int64_t time_nsec,
		      bool is_oldest, unsigned *ret_oldest);

/* Returns "last", "daily" and so on. */
const char *keep_rule_name(enum keep_rule rule);

/* Decides about all entries of the list. Sets `wanted` of every entry to what the rules say about
 * it alone, `kept_by` to the rules of keep that keep it, and `disposition` to what becomes of it.
 * Entries left to the limits are `wanted` DISPOSITION_WITHIN_LIMITS; all entries of a unit or chain
 * are, or none. Fills `order`, which has room for all indexes of the list, with the order of the
 * entries: by the names of their series, in each the newest unit first. Returns 0 or -ENOMEM. */
int retention_decide(const struct policy *p, struct policy_entries *l,
		     const struct policy_moment *now, uint32_t *order);
