/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the controller know of each other: controller-modes.c (modes and phases),
 * controller-grants.c (what may be done next, and how long to rest after it), controller-quantum.c
 * (how large quanta may be), controller-debt.c (steps that pay the debt), controller-trim.c (steps
 * that trim free space), controller-share.c (for which share of a burst they are at work) and
 * controller-piggyback.c (which of them go along with foreign commits). */
#pragma once

#include "base/macros.h"
#include "controller.h"

/* A fifth of the time is spent looking at the device without us; a cycle is short enough that the
 * background is the same in both parts of it. */
#define BURST (160 * USEC_PER_MSEC)
#define GAP (32 * USEC_PER_MSEC)

/* At full speed a sample is taken so often: two of them see foreign I/O within 50 ms. */
#define SAMPLE_EVERY (20 * USEC_PER_MSEC)

/* So many bytes of discards at full speed are 16 ms on a disk that takes 0.5 ms for each MiB and
 * does eight at a time, and a sync for them costs less than 1 % of the time. */
#define FAST_DISCARD MiB(256)

/* What an entry counts as, in bytes, where a rate is to be kept. */
#define ENTRY_WORTH KiB(4)

/* The cooldown is so many times as long as a discard took too long. A hundred times would be 1 % of
 * the time; requests that wait in a queue behind it lose some more. */
#define COOLDOWN_FACTOR 150
/* The floor of the rate ends it sooner on most disks; without one, this does. */
#define COOLDOWN_MOST (120 * USEC_PER_SEC)

/* On a disk with a head a step waits for a lull as long as this. */
#define LULL_MOST (30 * USEC_PER_MSEC)

/* ---- controller-grants.c --------------------------------------------------------------------- */

/* Nothing of ours is under way, and `in_flight` requests are. Returns when to go on: now, or a
 * later moment at which to ask again. */
uint64_t yield_check(struct yield *y, uint64_t now_usec, uint64_t in_flight);

/* Accounts for work that takes `floor_usec` at the floor of the rate; 0: there is no floor. */
void yield_spent(struct yield *y, uint64_t now_usec, uint64_t floor_usec);

/* How long to rest after a quantum: so long that quanta are at work for their share of the burst,
 * and at least until the discard cooldown ends; but never so long that the rate falls under its
 * floor, and always so long that it keeps below its ceiling. */
uint64_t quantum_cooldown(const struct controller *c, uint64_t now, uint64_t cost);

/* How long to rest at most, for the rate not to fall under its floor. */
uint64_t quantum_cooldown_most(const struct controller *c, uint64_t cost);

/* When that rest begins: now, or at the end of one that was interrupted. */
uint64_t cooldown_from(const struct controller *c, uint64_t now);

/* The quantum is synced, or left for a foreign commit: the next begins. */
void quantum_end(struct controller *c);

/* ---- controller-quantum.c ------------------------------------------------------------------- */

/* How much of it is left, at least 1, where a quantum is cut into `parts`, at least 1. */
uint64_t quantum_left(const struct quantum_size *s, unsigned parts);

/* Is what is left of a part not worth a slice of its own? */
bool quantum_is_full(const struct quantum_size *s, unsigned parts);

/* Sets both dimensions to where the search begins. */
void quanta_init(struct controller *c);

/* Quanta are no larger than the bounds allow, from now on. */
void quanta_bound(struct controller *c);

/* Keeps the newest `size` values, at most PACING_CANARIES. */
void window_add(struct cost_window *w, unsigned size, uint64_t v);

/* The middle one, the upper of two; 0 if there are none. */
uint64_t window_median(const struct cost_window *w);

/* What a sync costs without us; 0: not known. */
uint64_t quiet_sync(const struct controller *c);

/* What a sync may cost with a quantum of ours in it, in microseconds. */
double sync_target(const struct controller *c);

/* What a quantum may cost, in microseconds. */
double quantum_target(const struct controller *c);

/* A quantum was synced, and a request that came meanwhile waited `cost_usec` for it. Finds how
 * large quanta may be: doubling at first, then in small steps around the target. */
void quantum_adjust(struct controller *c, uint64_t cost_usec);

/* ---- controller-debt.c ---------------------------------------------------------------------- */

/* Sets the size of a step to where the search begins. */
void debt_init(struct controller *c);

/* What a foreign request may wait for a step, in microseconds: as much as it may wait more for a
 * quantum than for a sync with nothing freed. */
double step_target(const struct controller *c);

/* ---- controller-trim.c ---------------------------------------------------------------------- */

/* Sets the sizes of steps to where the search begins. */
void trim_init(struct controller *c);

/* ---- controller-share.c --------------------------------------------------------------------- */

/* Requests between two samples that were read by other processes. May be negative: ours are counted
 * when they are asked for, all when they have been answered; so only sums over some time say much.
 */
double foreign_reads(const struct controller *c, const struct pacing_sample *s,
		     const struct pacing_sample *then);

/* Foreign reads between two samples are taken into w. */
void reads_add(const struct controller *c, struct pacing_waits *w, const struct pacing_sample *s,
	       const struct pacing_sample *then);

/* Flushes between two samples in which nothing of ours was under way are taken into w. */
void flushes_add(struct pacing_waits *w, const struct pacing_sample *s,
		 const struct pacing_sample *then);

/* In microseconds; 0: not known. */
double waits_mean(const struct pacing_waits *w);

/* What to begin with. */
double share_first(const struct controller *c);

/* Are foreign reads slower while we work? Then it is us; otherwise the reason is another. */
void share_adjust(struct controller *c, uint64_t now_usec);

/* ---- controller-piggyback.c ----------------------------------------------------------------- */

/* `commits` have come since the last sample, ours included, in `elapsed_usec`. */
void piggyback_sample(struct piggyback *p, uint64_t commits, uint64_t elapsed_usec);

/* How often a sync that only measures is worth it. */
uint64_t measure_every(const struct controller *c);

/* After the burst a canary goes: the first quantum that ends in its second half is synced. */
bool canary_is_next(const struct controller *c, uint64_t now);

/* Do quanta go along with foreign commits? And the one that ends now? */
bool piggybacks(const struct controller *c);
bool quantum_piggybacks(const struct controller *c, uint64_t now);

/* In how many parts what is granted now is to be done: at least 1. */
unsigned piggyback_parts(const struct controller *c, uint64_t now);

/* A quantum was done that a foreign commit will take along. */
void piggyback_quantum_end(struct controller *c, uint64_t now);

/* Another process has committed. */
void piggyback_foreign_commit(struct controller *c, uint64_t now);
