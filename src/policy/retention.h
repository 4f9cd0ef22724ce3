/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Retention: what the rules of a policy keep in each series, before any limit applies. Pure, but
 * for the time zone, which is that of the process.
 *
 * Within a series the entries are in order, the newest first. An entry that one of the rules of
 * keep, min-count or min-age keeps, stays. If the policy has a keep, every other entry is to be
 * deleted. Otherwise entries older than max-age are to be deleted, and the rest is left to the
 * limits (limits.h).
 *
 * keep has the meaning that `restic forget` gives to its --keep-* options. A rule for a period
 * keeps the newest entry of each of the latest n periods that have an entry; `last` keeps the
 * latest n entries; `within` keeps entries younger than a time span, which ends at the newest
 * entry. Weeks are those of ISO 8601. An entry that any rule keeps is kept. */
#pragma once

#include "entries.h"
#include "policy.h"

#define NSEC_PER_SEC 1000000000LL

#define PERIOD_SIZE 17

/* The state of the rules of keep in one series; all zero before its first time. */
struct periods {
	uint64_t used[KEEP_WITHIN];
	char seen[KEEP_WITHIN][PERIOD_SIZE]; /* the period that each rule kept an entry of last */
	int64_t newest_nsec;
	bool begun;
};

/* Takes the next time of the series, which is not newer than the one before. Returns the rules that
 * keep it as bits (1 << KEEP_DAILY), 0 for none. */
unsigned periods_step(struct periods *s, const struct policy_keep *k, int64_t time_nsec);

/* Returns "last", "daily" and so on. */
const char *keep_rule_name(enum keep_rule rule);

/* Sets `wanted` of every entry of the list to what the rules say about it alone, `kept_by` to the
 * rules of keep that keep it, and `disposition` to what becomes of it. Entries left to the limits
 * are `wanted` DISPOSITION_WITHIN_LIMITS. Fills `order`, which has room for all indexes of the
 * list, with the order of the entries: by the names of their series, in each the newest first. */
void retention_decide(const struct policy *p, struct policy_entries *l, int64_t now_nsec,
		      uint32_t *order);
