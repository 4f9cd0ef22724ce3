/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One spool as its files see it: spool-one.c (where it is and what is in it, round by round) and
 * spool-entries.c (what is known of its entries, what is due, and what became of it). */
#pragma once

#include <sys/queue.h>
#include <time.h>

#include "spool.h"
#include "spool-returned.h"
#include "spool-round.h"
#include "base/macros.h"

#define LATER_USEC (60 * (int64_t)USEC_PER_SEC)

/* What all spools have in common; longer-lived than each. */
struct spool_common {
	sd_event *event;
	struct spools_options options;
	char *const *protect; /* NULL-terminated, or NULL */
	struct spool_returned returned;
	bool returned_more; /* than can be remembered: nothing is taken any more */
	uint64_t last_id;   /* of batches */
	uint32_t last_part;
};

enum spool_entry_state {
	SPOOL_NEW,      /* not checked yet */
	SPOOL_WAITING,  /* until it has not changed for long enough */
	SPOOL_OFFERED,  /* in a batch that is not answered */
	SPOOL_TAKEN,    /* there is a job for it */
	SPOOL_REFUSED,  /* until it changes */
	SPOOL_RETURNED, /* it was restored: likewise */
};

struct spool_entry {
	LIST_ENTRY(spool_entry) link;
	enum spool_entry_state state;
	bool touched;       /* something happened to it */
	bool later;         /* SPOOL_WAITING: for another attempt */
	uint32_t part;      /* entries of different parts are not submitted together */
	uint64_t batch;     /* SPOOL_OFFERED */
	uint64_t round;     /* in which it was seen last */
	int64_t since_usec; /* CLOCK_MONOTONIC: unchanged since; may be before the start */
	int submitter;      /* SPOOL_WAITING: index of the last round, or -1 */
	struct spool_stamp stamp;
	char name[];
};

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

	/* What is known of its entries, which are its own: in no order, and by name. */
	LIST_HEAD(spool_entry_list, spool_entry) entries;
	void *by_name;
	size_t n_entries, n_touched;
	bool check, list, deliver; /* what the next round is for */
	bool pausing;              /* something is short: nothing until the timer */
	bool more;                 /* there is what is not remembered */
	struct spool_round *round;
	uint64_t last_round;
	sd_event_source *timer;
	uint64_t taken;
};

/* ---- spool-one.c -------------------------------------------------------------------------- */

int spool_new(struct spool **ret, struct spool_common *common, const char *path);
struct spool *spool_free(struct spool *s);
/* Sets the times, and checks everything again. */
void spool_configure(struct spool *s, uint64_t settle_usec, uint64_t undo_usec);
/* Tries now what was to be tried again later. */
void spool_retry(struct spool *s);

/* Begins a round if there is anything to check, and none is going on. */
void spool_kick(struct spool *s);
/* Kicks it at that time of CLOCK_MONOTONIC; INT64_MAX: not. Returns 0 or a negative errno. */
int spool_timer_set(struct spool *s, int64_t usec);
void spool_tell(const struct spool *s, const struct spool_entry *e, const char *text);
int64_t spool_clock_usec(clockid_t clock);

/* ---- spool-entries.c ---------------------------------------------------------------------- */

/* The entry of this name, or NULL. */
struct spool_entry *spool_entry_find(const struct spool *s, const char *name);
/* The same, made as SPOOL_NEW if need be. NULL if there are too many (or out of memory). */
struct spool_entry *spool_entry_get(struct spool *s, const char *name);
void spool_entry_forget(struct spool *s, struct spool_entry *e);
void spool_entry_set_touched(struct spool *s, struct spool_entry *e, bool touched);
/* The entry waits for another minute, whatever its times are. */
void spool_entry_later(const struct spool *s, struct spool_entry *e);

/* If it is time for a batch, marks what is due for a last check, which then delivers it; else sets
 * the timer to when it will be. Returns 0 or a negative errno. */
int spool_prepare(struct spool *s);
/* Offers what is due of what a round has seen, a batch for each authority. Returns 0 or a negative
 * errno. */
int spool_deliver(struct spool *s, const struct spool_round *r);
/* False if the batch is not of this spool. */
bool spool_answer(struct spool *s, uint64_t batch, enum spool_outcome outcome);
