/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One spool as its two files see it: spool-one.c (where it is and what is in it, round by round)
 * and spool-deadline.c (what is due, and what became of it). */
#pragma once

#include "spool.h"
#include "spool-round.h"
#include "base/macros.h"

#define LATER_USEC (60 * (int64_t)USEC_PER_SEC)

struct spool {
	struct spool_common *common;
	char *path, *origin;
	uint64_t settle_usec, undo_usec;

	enum spool_state state;
	char why[256];
	struct spool_authority authority;
	/* Where it was when it was found; the watches are on these. Their descriptors are -1. */
	struct spool_step *steps;
	sd_event_source **watches;
	size_t n_steps;
	bool complete, attached_unserved;

	struct spool_entries entries;
	bool check, list, deliver; /* what the next round is for */
	bool pausing;              /* something is short: nothing until the timer */
	bool more;                 /* there is what is not remembered */
	struct spool_round *round;
	uint64_t last_round;
	sd_event_source *timer;
	uint64_t taken;
};

/* Begins a round if there is anything to check, and none is going on. */
void spool_kick(struct spool *s);

/* Kicks it at that time of CLOCK_MONOTONIC; INT64_MAX: not. Returns 0 or a negative errno. */
int spool_timer_set(struct spool *s, int64_t usec);

void spool_tell(const struct spool *s, const struct spool_entry *e, const char *text);

int64_t spool_clock_usec(clockid_t clock);

/* The entry waits for another minute, whatever its times are. */
void spool_entry_later(const struct spool *s, struct spool_entry *e);

/* If it is time for a batch, marks what is due for a last check, which then delivers it; else sets
 * the timer to when it will be. Returns 0 or a negative errno. */
int spool_prepare(struct spool *s);

/* Offers what is due of what a round has seen, a batch for each authority. Returns 0 or a negative
 * errno. */
int spool_deliver(struct spool *s, const struct spool_round *r);
