/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When speed wins over latency: little free space, or a time by which a job is to be done. Pure:
 * numbers in, a decision out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

struct policy_space;

/* Of bytes, or of inodes. */
struct space {
	uint64_t free, all;
};

/* From where free space is less than `below` until it is `until`; `on` is what was decided last. */
bool urgency_space(const struct policy_space *below, const struct policy_space *until,
		   const struct space *s, bool on);

/* May that change within a second? Space is less than twice what `below` says. */
bool urgency_is_near(const struct policy_space *below, const struct space *s);

/* The longest time between two looks. */
#define URGENCY_LOOK_MOST (60 * USEC_PER_SEC)

/* What programs can take in a second: bytes that a fast device takes, and inodes that one makes. */
#define URGENCY_BYTES_MOST (2ULL << 30)
#define URGENCY_INODES_MOST (1ULL << 19)

/* How long until the next look: the time in which programs that take `most` a second could reach
 * the mark, but 1 s at least, as perhaps none does. If they were seen to take `rate` a second, half
 * of the time that they need to the mark, if that is less; 100 ms at least. */
uint64_t urgency_look_usec(const struct policy_space *below, const struct space *s, uint64_t rate,
			   uint64_t most);

/* How far a run is. Microseconds are of one clock. */
struct course {
	uint64_t begun_usec, now_usec, by_usec;
	uint64_t done, all; /* names; done in this run, and what it began with. done 0: not known */
};

/* When it will have ended at the rate so far. UINT64_MAX: not known. */
uint64_t urgency_ends_usec(const struct course *c);

/* Is it time to hurry? A tenth of the work that is left is added, as rates change. Where it is not
 * known how much is left, the first half of the time is for foreign I/O. */
bool urgency_presses(const struct course *c);
