/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When speed wins over latency: little free space, or a time by which a job is to be done. Pure:
 * numbers in, a decision out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

struct policy_space;

struct space {
	uint64_t free_bytes, all_bytes;
};

/* From where free space is less than `below` until it is `until`; `on` is what was decided last. */
bool urgency_space(const struct policy_space *below, const struct policy_space *until,
		   const struct space *s, bool on);

/* May that change within a second? Space is less than twice what `below` says. */
bool urgency_is_near(const struct policy_space *below, const struct space *s);

/* The longest that nobody looks. */
#define URGENCY_LOOK_MOST (60 * USEC_PER_SEC)

/* How long until the mark could be reached at the fastest that anybody writes, but 1 s at least:
 * nobody might. Where somebody does, and has been seen to take so many bytes a second, half as long
 * as that takes to the mark, if that is less; 100 ms at least. */
uint64_t urgency_look_usec(const struct policy_space *below, const struct space *s, uint64_t rate);

/* How far a run is. Microseconds are of one clock. */
struct course {
	uint64_t begun_usec, now_usec, by_usec;
	uint64_t done, all; /* names; done in this run, and what it began with. done 0: not known */
};

/* When it will have ended at the rate so far. UINT64_MAX: not known. */
uint64_t urgency_ends_usec(const struct course *c);

/* Is it time to hurry? A tenth of the work that is left is added, as rates change. Where it is not
 * known how much is left, the first half of the time is given to others. */
bool urgency_presses(const struct course *c);
