/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* keep: which of a series of times are kept, with the meaning that `restic forget` gives to its
 * --keep-* options. Pure, but for the local time zone.
 *
 * Times come newest first. A rule for a period keeps the newest of each of so many periods that
 * have any; `last` keeps so many; `within` keeps what is younger than that, seen from the newest.
 * Weeks are those of ISO 8601. What any rule keeps is kept. */
#pragma once

#include "policy.h"

#define NSEC_PER_SEC 1000000000LL

#define PERIOD_SIZE 17

/* Of one series; all zero before its first time. */
struct periods {
	uint64_t used[KEEP_WITHIN];
	char seen[KEEP_WITHIN][PERIOD_SIZE]; /* the period of the last one that was kept for it */
	int64_t newest_nsec;
	bool begun;
};

/* Takes the next time, not newer than the one before. Returns the rules that keep it as bits
 * (1 << KEEP_DAILY), 0 for none. */
unsigned periods_step(struct periods *s, const struct policy_keep *k, int64_t time_nsec);

/* "last", "daily", ... */
const char *keep_rule_name(enum keep_rule rule);
