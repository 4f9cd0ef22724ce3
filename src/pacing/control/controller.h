/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How fast to delete on one set of devices, so that other processes' I/O there (foreign I/O) does
 * not suffer. Pure: samples and the costs of our own quanta in, the next quantum out; no clock, no
 * files, no threads. Times are of one monotonic clock, in microseconds.
 *
 * Three modes:
 *   fast    no foreign I/O: no limits. Requests that are not ours lead to a check.
 *   check   our lanes rest for some milliseconds. Requests that go on then are foreign: paced.
 *           None: fast again, and the next check waits so long that checking stays cheap.
 *   paced   foreign I/O. Work is done in quanta, each of which is synced at once, in bursts with
 *           gaps between. Gaps show what the device is like without us, and whether the foreign
 *           I/O goes on.
 *
 * In paced mode two things are searched, in this order:
 *   - the size of a quantum (controller-quantum.c): what it costs, its sync included, may exceed
 *     what a sync with nothing freed costs (the canary's) by a half, so that a request that waits
 *     for a quantum waits as it would for any fsync of another process;
 *   - the share of a burst for which quanta may be at work (controller-share.c): foreign reads may
 *     be so little slower in bursts than in gaps that it goes unnoticed. If they are not slower,
 *     slowness is not ours, and the share rises whatever else the device goes through. Where
 *     foreign syncs are many, and far shorter than any of ours can be, the size of a quantum bounds
 *     nothing, and the share is small.
 *
 * Three kinds of disks and loads need more:
 *   - On a disk with a head neither is enough, and foreign requests go first, one by one (struct
 *     yield).
 *   - Where what is freed is discarded, a single discard may take longer than any quantum may
 *     (discard_cooldown_until_usec).
 *   - Once the size is found, and while other processes commit, quanta go along with their commits
 *     (struct piggyback), and only one in a second is synced: to measure it, and so that the canary
 *     that follows finds nothing of ours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "latency-hour.h"
#include "pace.h"
#include "totals.h"

enum pacing_mode {
	PACING_FAST,
	PACING_CHECK,
	PACING_PACED,
};

#define PACING_UNLIMITED UINT64_MAX

struct controller_options {
	/* What a foreign request may take; 0: what it takes without us, and a half more. */
	uint64_t latency_usec;
	/* Never slower than this: bytes per second, an entry counting as 4 KiB at least. */
	uint64_t rate_min;
	/* Never faster than this, in any mode; 0: no limit. */
	uint64_t rate_max;
	/* Foreign I/O is presumed until a check shows otherwise. */
	bool presumed_busy;
	/* There are device counters. Without them foreign I/O cannot be seen, and our own cost
	 * against its own floor is all there is. */
	bool observed;
	/* Foreign I/O is not looked for, on purpose or because there is no disk: only rate_max
	 * holds. */
	bool ignore_foreign;
	/* A server answers, by one round trip after the other: rate_max holds over some samples,
	 * and within it lanes go on side by side, without asking. */
	bool served;
	/* What is freed is discarded by the way, and foreign requests wait for that: so that it
	 * does not pile up, it is synced now and then even in fast mode. */
	bool discards;
	/* Nothing is removed: what is spent are readings, none of which ever needs a sync. */
	bool reads_only;
};

/* What the sensors say. Counts are since any fixed moment, of the requests of all processes. */
struct pacing_sample {
	uint64_t now_usec;
	uint64_t reads, read_sectors, read_usec; /* read_usec: summed over requests */
	uint64_t flushes, flush_usec;    /* flush_usec: summed over requests; may stand still */
	uint64_t discards, discard_usec; /* discard_usec: summed over requests */
	uint64_t commits;  /* of the filesystem's journal; stands still where none is known */
	uint64_t requests; /* reads, writes and flushes; not discards, which are ours */
	uint64_t in_flight;
	uint64_t own_sectors;               /* of read_sectors, those read for ourselves */
	uint64_t canary_count, canary_usec; /* how many canaries ended; what the last one took */
	bool canary_busy;                   /* one is under way, so that requests may be its */
	/* Slices of peers under way that controller_begin was not told of: they go on without
	 * limits. */
	unsigned peers_outstanding;
};

/* What may be done next. */
struct pacing_grant {
	uint64_t not_before_usec; /* PACING_UNLIMITED: not before something else happens */
	uint64_t entries, bytes;  /* how much of each is left of the quantum, at least 1 */
};

/* What is known and decided, for output. */
struct pacing_view {
	enum pacing_mode mode;
	uint64_t quiet_sync_usec; /* what a sync costs without us; 0: not known */
	uint64_t target_usec;     /* what a quantum may cost */
	uint64_t quantum_usec;    /* what they cost */
	uint64_t read_quiet_usec; /* mean foreign read in gaps; 0: not known */
	uint64_t read_burst_usec; /* and in bursts */
	uint64_t entries, bytes;  /* of a quantum */
	double share;             /* of a burst for which quanta are at work */
	bool urgent;              /* nothing is waited for, whatever the mode is */
	bool piggyback;           /* quanta go along with foreign commits */
};

/* ---- parts of the state --------------------------------------------------------------------- */

/* One dimension of a quantum: entries or bytes. */
struct quantum_size {
	uint64_t limit, least, most;
	uint64_t used; /* of the quantum that is being done */
};

#define PACING_CANARIES 16
#define PACING_COSTS 7

/* The newest few values, in microseconds. Of what quanta cost, the median is believed: one that met
 * a foreign commit says nothing. */
struct cost_window {
	uint64_t v[PACING_CANARIES];
	unsigned n, next;
};

/* Where other processes commit often, their commits take along what we did, and we need not commit
 * ourselves. A process that meets a commit of ours waits for that and then for its own; one whose
 * commit takes along a small part of what we might have committed does not notice. */
struct piggyback {
	double commits; /* foreign, lately, fading; below 0 where ours are seen late */
	unsigned own;   /* ours since the last sample */
};

/* Letting foreign requests go first, one by one. A disk with one head serves requests one after
 * another, and each of ours between two foreign ones costs them two seeks: a sync, which is several
 * requests in a row, meets one of ours before each of them. A small quantum or a small share does
 * not help against that. So before each few entries it is seen whether a request is in flight, and
 * as long as there is, and for a moment longer, nothing is begun. The rate's floor bounds it. */
struct yield {
	uint64_t seen_usec;  /* when a request was last in flight */
	uint64_t ahead_usec; /* the time at which, at the floor, all would be done that is */
};

/* Mean latency of foreign requests of one kind in one phase, the past fading. */
struct pacing_waits {
	double count, usec;
};

/* What leads to a check at full speed. */
enum check_trigger {
	TRIGGER_READS,   /* more has been read than we had read */
	TRIGGER_FLUSHES, /* the device is flushed often, and we do not sync */
	TRIGGER_TIMER,   /* a check now and then, for I/O that neither reads nor flushes */
	CHECK_TRIGGERS,
};

/* Embedded by its users, who read only `mode`, `gap`, `not_before_usec` and `totals`. */
struct controller {
	struct controller_options o;
	struct pacing_sample last; /* the previous one */

	/* fast and check */
	double activity[CHECK_TRIGGERS]; /* requests that may be foreign, lately, fading */
	uint64_t suppressed_until_usec[CHECK_TRIGGERS];
	uint64_t mode_since_usec;
	double read_size;    /* of all reads lately, in sectors */
	uint64_t fast_bytes; /* freed since the last sync */

	/* phases: a check is a gap */
	uint64_t phase_since_usec, settled_usec;
	struct pacing_sample phase_start; /* of the burst, or when the gap had settled */
	uint64_t canary_next_usec;

	/* quanta */
	struct quantum_size entries, bytes;
	struct cost_window costs; /* of quanta, to foreign requests, since the size was last cut */
	uint64_t work_usec;       /* spent on the quantum that is being done */
	uint64_t unit_usec;       /* its longest indivisible part */
	uint64_t not_before_usec;
	uint64_t cooldown_until_usec;         /* before it no foreign commit is a reason to go on */
	uint64_t synced_usec;                 /* when the last quantum was */
	uint64_t discard_cooldown_until_usec; /* the end of the rest after a discard that took long
					       */
	uint64_t flush_from_usec;             /* when the next job's end may be flushed */
	struct piggyback piggyback;
	struct yield yield;

	/* debt */
	struct quantum_size debt; /* bytes that a step writes back at most */
	struct cost_window debt_costs;
	uint64_t debt_not_before_usec;

	/* trim */
	struct quantum_size trim;      /* bytes that a step trims at most */
	struct quantum_size trim_fast; /* the same with no foreign I/O */
	struct cost_window trim_costs;
	uint64_t trim_not_before_usec;

	/* baseline */
	struct cost_window canaries;
	uint64_t cheapest_usec; /* sync so far: where there is no canary */

	/* share */
	double share;
	struct pacing_waits in_burst, in_gap; /* reads */
	struct pacing_waits flushes;          /* in gaps */
	uint64_t share_changed_usec;

	struct pacing_totals totals;
	struct latency_hour hour;

	enum pacing_mode mode;
	enum check_trigger trigger; /* of the last check */
	unsigned outstanding;       /* slices begun and not ended */
	unsigned idle_gaps;         /* in a row */
	unsigned expensive;         /* quanta in a row that cost too much while growing */
	bool urgent, has_last;
	bool fast_work; /* anything was done at full speed since foreign I/O was seen */
	bool gap, settled;
	bool gap_active;     /* foreign requests, before the canary went */
	bool canary_in_gap;  /* its requests are */
	bool canary_invalid; /* it paid for what was done at full speed */
	bool growing;        /* no quantum has been too expensive yet: double */
	bool large_files;    /* are what is deleted */
	bool piggybacked;    /* since the last sync something was left for foreign commits */
	bool needs_sync;     /* the slice that was spent last, and is not synced yet */
};

/* ---- the controller ------------------------------------------------------------------------- */

/* Makes *c from nothing; there is nothing to be freed. */
void controller_init(struct controller *c, const struct controller_options *o, uint64_t now_usec);

/* Speed first: no limits until it is switched off again. */
void controller_urgent(struct controller *c, bool on);

/* Other bounds than those it began with, as in the options. */
void controller_limits(struct controller *c, uint64_t latency_usec, uint64_t rate_min,
		       uint64_t rate_max);

/* What is deleted from now on is discarded as it goes, as in the options. */
void controller_discards(struct controller *c);

/* From which size on, in bytes, a file is to be freed in steps now; UINT64_MAX: no limits. */
uint64_t controller_step(const struct controller *c);

/* Accounts for work that was begun without asking, as there were no limits. Returns true if it has
 * to be synced. */
bool controller_fast_spent(struct controller *c, uint64_t entries, uint64_t bytes);
/* So many syncs were made because of that. */
void controller_fast_synced(struct controller *c, uint64_t syncs);

/* Takes a sample. Returns when the next one is wanted. */
uint64_t controller_sample(struct controller *c, const struct pacing_sample *s);

/* True if now is the moment for a canary; the caller then lets one go. */
bool controller_wants_canary(struct controller *c);
/* There will be no more: what earlier ones took is no measure of what comes. */
void controller_no_canary(struct controller *c);

/* What may be done at this moment, or from which on. */
struct pacing_grant controller_next(struct controller *c, uint64_t now_usec);

/* Do foreign requests go first? Then, before a slice begins and while no other is under way, tell
 * controller_yield_until how many requests are in flight. It returns when to begin: now, or when
 * to ask again. */
bool controller_yields(const struct controller *c);
uint64_t controller_yield_until(struct controller *c, uint64_t now_usec, uint64_t in_flight);

/* True if the next slice begins a quantum: all before it is synced. */
bool controller_is_between(const struct controller *c);

/* A slice of work begins, within what was granted. */
void controller_begin(struct controller *c);

/* It ended, and took `cost_usec`. Returns true if it has to be synced now: sync, and call
 * controller_synced. */
bool controller_spent(struct controller *c, uint64_t now_usec, uint64_t entries, uint64_t bytes,
		      uint64_t cost_usec);

/* What was done is on the device, and the sync took `cost_usec`. Without controller_spent before
 * it, the slice was a flush that had to be made in any case: it ends the quantum, and measures
 * none. */
void controller_synced(struct controller *c, uint64_t now_usec, uint64_t cost_usec);

/* From which moment on the next of these flushes may be made; 0: at any. Jobs that end before wait
 * for it together. */
uint64_t controller_flush_from(const struct controller *c);

/* When the next step that pays the debt may begin, and how many bytes it may write back. It is a
 * slice as any other: controller_begin, then controller_debt_spent. */
struct pacing_grant controller_debt_next(const struct controller *c, uint64_t now_usec);
/* It wrote back so many bytes, which took `cost_usec`. */
void controller_debt_spent(struct controller *c, uint64_t now_usec, uint64_t bytes,
			   uint64_t cost_usec);

/* What a foreign request may wait for something that pays the debt, in microseconds; 0: not known.
 */
uint64_t controller_debt_target(const struct controller *c);

/* The same for steps that trim free space. */
struct pacing_grant controller_trim_next(const struct controller *c, uint64_t now_usec);
/* It trimmed so many bytes, which may be more than were granted: a kernel may not divide what is
 * free. `cost_usec` is what the device was busy with it. */
void controller_trim_spent(struct controller *c, uint64_t now_usec, uint64_t bytes,
			   uint64_t cost_usec);

/* Fills in *ret. */
void controller_view(const struct controller *c, struct pacing_view *ret);

/* "fast", "check", "paced". */
const char *pacing_mode_name(enum pacing_mode mode);
