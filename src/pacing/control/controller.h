/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How fast to delete on one set of devices, so that nobody else on them notices. Pure: samples and
 * the costs of our own pieces in, the next piece out; no clock, no files, no threads.
 *
 * Three modes:
 *   fast    nobody else is there: no limits. Requests that are not ours lead to a check.
 *   check   all rests for some milliseconds. Requests that go on then are somebody's: paced.
 *           Silence: fast again, and the next check waits so long that checking stays cheap.
 *   paced   somebody is there. Work is done in pieces, each of which is made due at once (synced),
 *           in bursts with gaps between. Gaps show what the device is like without us, and whether
 *           there still is somebody.
 *
 * In paced mode two things are found, in this order:
 *   - how large a piece may be: what it costs, its sync included, may exceed what a sync with
 *     nothing freed costs (the canary's) by a quarter, so that a request that waits for a piece
 *     waits as it would have for any neighbour's fsync;
 *   - for which share of a burst pieces may be at work: others' reads may be slower in bursts than
 *     in gaps by so little that they cannot tell. If they are not slower, slowness is not ours,
 *     and the share rises whatever else the device goes through.
 *
 * On a disk with a head neither is enough, and others' requests go first, one by one: yield.h.
 *
 * Where what is freed is discarded, a single discard may take longer than any piece may:
 * discard-cooldown.h.
 *
 * Once the size is found, and while others commit, pieces go along with their commits instead
 * (piggyback.h), and only one in a second is synced: to measure it, and so that the canary that
 * follows finds nothing of ours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "discard-cooldown.h"
#include "pace.h"
#include "quantum.h"
#include "piggyback.h"
#include "tally.h"
#include "yield.h"

enum pacing_mode {
	PACING_FAST,
	PACING_CHECK,
	PACING_PACED,
};

#define PACING_UNLIMITED UINT64_MAX

struct controller_options {
	/* What a bystander's request may take; 0: what it takes without us, and a quarter more. */
	uint64_t latency_usec;
	/* Never slower than this: bytes per second, an entry counting as 4 KiB at least. */
	uint64_t rate_min;
	/* Never faster than this, whoever is there; 0: as fast as it goes. */
	uint64_t rate_max;
	/* Somebody is presumed to be there until silence shows otherwise. */
	bool presumed_busy;
	/* There are device counters. Without, nobody can be seen coming or going, and our own cost
	 * against its own floor is all there is. */
	bool observed;
	/* Nobody is looked for, on purpose or because there is no disk: the ceiling is all that
	 * holds. */
	bool ignore_foreign;
	/* A server answers, by one round trip after the other: the ceiling holds over some looks,
	 * and within it lanes go on side by side, without asking. */
	bool served;
	/* What is freed is discarded by the way, and others wait for that: so that it does not pile
	 * up, is synced now and then even in fast mode. */
	bool discards;
	/* Nothing is removed: what is spent are readings, none of which is ever due. */
	bool reads_only;
};

/* What the sensors say. Counts are since any fixed moment, of everybody's requests. */
struct pacing_sample {
	uint64_t now_usec;
	uint64_t reads, read_sectors, read_usec; /* read_usec: summed over requests */
	uint64_t flushes;
	uint64_t discards, discard_usec; /* discard_usec: summed over requests */
	uint64_t commits;  /* of the filesystem's journal; stands still where none is known */
	uint64_t requests; /* reads, writes and flushes; not discards, which are ours */
	uint64_t in_flight;
	uint64_t own_sectors;               /* of read_sectors, those read for ourselves */
	uint64_t canary_count, canary_usec; /* how many canaries ended; what the last one took */
	bool canary_busy;                   /* one is under way, so that requests may be its */
	/* Slices under way that controller_begin was not told of: they go on without limits. */
	unsigned peers_outstanding;
};

/* What may be done next. */
struct pacing_grant {
	uint64_t not_before_usec; /* PACING_UNLIMITED: not before something else happens */
	uint64_t entries, bytes;  /* how much of each is left of the piece, at least 1 */
};

/* What has become known, for people. */
struct pacing_view {
	enum pacing_mode mode;
	uint64_t quiet_sync_usec; /* what a sync costs without us; 0: not known */
	uint64_t target_usec;     /* what a piece may cost */
	uint64_t quantum_usec;    /* what they cost */
	uint64_t read_quiet_usec; /* others' mean read in gaps; 0: not known */
	uint64_t read_burst_usec; /* and in bursts */
	uint64_t entries, bytes;  /* of a piece */
	double share;             /* of a burst for which pieces are at work */
	bool urgent;              /* whatever the mode is, nothing is waited for */
	bool piggyback;           /* pieces go along with others' commits */
};

/* Mean latency of others' reads in one phase, the past fading. */
struct pacing_reads {
	double count, usec;
};

/* What may betray somebody while we work at full speed. */
enum check_trigger {
	TRIGGER_READS,   /* more has been read than we had read */
	TRIGGER_FLUSHES, /* the device is flushed often, and we do not sync */
	TRIGGER_TIMER,   /* a look now and then, for those that neither read nor flush */
	CHECK_TRIGGERS,
};

struct controller {
	struct controller_options o;
	struct pacing_sample last; /* of the previous look */

	/* fast and check */
	double activity[CHECK_TRIGGERS]; /* requests that may be others', lately, fading */
	uint64_t suppressed_until_usec[CHECK_TRIGGERS];
	uint64_t mode_since_usec;
	double read_size;    /* of all reads lately, in sectors */
	uint64_t fast_bytes; /* freed since the last sync */

	/* phases: a check is a gap */
	uint64_t phase_since_usec, settled_usec;
	struct pacing_sample phase_start; /* of the burst, or when the gap had settled */
	uint64_t canary_next_usec;

	/* pieces */
	struct quantum_size entries, bytes;
	struct cost_window costs; /* of pieces to a bystander, since the size was last cut */
	uint64_t work_usec;       /* spent on the piece that is being done */
	uint64_t unit_usec;       /* its longest indivisible part */
	uint64_t not_before_usec;
	uint64_t cooldown_until_usec; /* before it no commit of others is a reason to go on */
	uint64_t synced_usec;         /* when the last piece was */
	uint64_t flush_from_usec;     /* when the next job's end may be flushed */
	struct piggyback piggyback;
	struct discard_cooldown discard_cooldown;
	struct yield yield;

	/* baseline */
	struct cost_window canaries;
	uint64_t cheapest_usec; /* sync so far: where there is no canary */

	/* share */
	double share;
	struct pacing_reads in_burst, in_gap;
	uint64_t share_changed_usec;

	struct pacing_totals totals;

	enum pacing_mode mode;
	enum check_trigger trigger; /* that led to the check */
	unsigned outstanding;       /* slices begun and not ended */
	unsigned idle_gaps;         /* in a row */
	unsigned expensive;         /* pieces in a row that were too dear while growing */
	bool urgent, has_last;
	bool fast_work; /* anything was done at full speed since somebody was there */
	bool gap, settled;
	bool gap_active;     /* somebody, before the canary went */
	bool canary_in_gap;  /* its requests are */
	bool canary_invalid; /* it paid for what was done at full speed */
	bool growing;        /* no piece has been too dear yet: double */
	bool large_files;    /* what is deleted are large ones */
	bool piggybacked;    /* since the last sync something was left for others' */
	bool needs_sync;     /* the slice that was spent last, and is not synced yet */
};

void controller_init(struct controller *c, const struct controller_options *o, uint64_t now_usec);

/* Bytes first: no limits until it is switched off again. */
void controller_urgent(struct controller *c, bool on);

/* Other bounds than those it began with. */
void controller_limits(struct controller *c, uint64_t latency_usec, uint64_t rate_min,
		       uint64_t rate_max);

/* From which size on a file is to be freed in steps now; UINT64_MAX: there are no limits. */
uint64_t controller_step(const struct controller *c);

/* Work that was begun without asking, as there were no limits: what was removed by it. True if it
 * is due. And so many syncs were made because it was. */
bool controller_fast_spent(struct controller *c, uint64_t entries, uint64_t bytes);
void controller_fast_synced(struct controller *c, uint64_t syncs);

/* Takes a sample. Returns when the next one is wanted. */
uint64_t controller_sample(struct controller *c, const struct pacing_sample *s);

/* True if now is the moment to let a canary go; the caller then does. */
bool controller_wants_canary(struct controller *c);
/* There will be no more: what earlier ones took is no measure of what comes. */
void controller_no_canary(struct controller *c);

/* What may be done at this moment, or from which on. */
struct pacing_grant controller_next(struct controller *c, uint64_t now_usec);

/* Are others' requests let go first? Then, before a slice begins and while no other is under way,
 * say how many are in flight; returns when to begin: now, or when to look again. */
bool controller_yields(const struct controller *c);
uint64_t controller_yield_until(struct controller *c, uint64_t now_usec, uint64_t in_flight);

/* True if the next slice begins a piece: all before it is synced. */
bool controller_is_between(const struct controller *c);

/* A slice of work begins, within what was granted. */
void controller_begin(struct controller *c);

/* It ended. Returns true if it has to be made due now: sync, and call controller_synced. */
bool controller_spent(struct controller *c, uint64_t now_usec, uint64_t entries, uint64_t bytes,
		      uint64_t cost_usec);

/* What was done is on the device, and the sync took so long. Without controller_spent before it,
 * the slice was a flush that had to be made, whatever is due: it ends the piece, and measures none.
 */
void controller_synced(struct controller *c, uint64_t now_usec, uint64_t cost_usec);

/* From which moment on the next of these may be made; 0: at any. Jobs that end before wait for it
 * together. */
uint64_t controller_flush_from(const struct controller *c);

void controller_view(const struct controller *c, struct pacing_view *ret);

/* "fast", "check", "paced". */
const char *pacing_mode_name(enum pacing_mode mode);
