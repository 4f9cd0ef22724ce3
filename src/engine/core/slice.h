/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A slice: what a lane does between asking the pace for leave and telling it what it has done. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "pace.h"

/* Embedded by its users; all zero is a closed one. Without a pace nothing of it costs anything. */
struct slice {
	const struct pace *pace; /* or NULL */
	const _Atomic bool *cancelled;
	int fd; /* in which the work is done, and which is synced */
	bool open;
	bool commit;             /* the filesystem, a btrfs, is committed with the next sync */
	uint64_t entries, bytes; /* done in it */
	uint64_t began_usec;
	struct pace_budget budget;
};

void slice_init(struct slice *s, const struct pace *pace, const _Atomic bool *cancelled, int fd);

/* Sees to it that there is a slice with something left of its budget: ends one that is used up,
 * and waits for a new one. Returns 0 if it could go on as it was, 1 if time may have passed, or
 * -ECANCELED. */
int slice_open(struct slice *s);

/* Ends it all the same, and waits for a new one: 0 or -ECANCELED. */
int slice_renew(struct slice *s);

/* Foreign requests wait for each single one of ours: see PACE_FEW. */
static inline bool slice_is_small(const struct slice *s)
{
	return s->open && s->budget.entries <= PACE_FEW;
}

/* Something was done in it. */
static inline void slice_add(struct slice *s, uint64_t entries, uint64_t bytes)
{
	s->entries += entries;
	s->bytes += bytes;
}

/* Ends it, if it is open, and syncs what has become due. */
void slice_close(struct slice *s);

/* The same when nothing follows: a commit that is wanted is made even if no sync was due. */
void slice_finish(struct slice *s);
