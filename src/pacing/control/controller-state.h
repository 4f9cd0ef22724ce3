/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the controller's own files know of each other: controller-modes.c (modes, phases, pieces),
 * controller-size.c (how large pieces may be), controller-share.c (for which share of a burst they
 * are at work), controller-piggyback.c (which of them go along with others' commits) and
 * controller-flush.c (how often what has to be durable is flushed). */
#pragma once

#include "controller.h"

/* A fifth of the time is spent looking at the device without us; a cycle is short enough that the
 * background is the same in both parts of it. */
#define BURST (160 * USEC_PER_MSEC)
#define GAP (32 * USEC_PER_MSEC)

/* Requests between two samples that were read for somebody else. May be negative: ours are counted
 * when they are asked for, all when they have been answered; so only sums over some time say much.
 */
double foreign_reads(const struct controller *c, const struct pacing_sample *s,
		     const struct pacing_sample *then);

/* Others' reads between two samples are taken into r. */
void reads_add(const struct controller *c, struct pacing_reads *r, const struct pacing_sample *s,
	       const struct pacing_sample *then);

/* In microseconds; 0: not known. */
double reads_mean(const struct pacing_reads *r);

/* What to begin with. */
double share_first(const struct controller *c);

/* Are others' reads slower while we work? Then it is us; otherwise, whatever ails them is not. */
void share_adjust(struct controller *c, uint64_t now_usec);

/* What a sync costs without us; 0: not known. */
uint64_t quiet_sync(const struct controller *c);

/* What one may cost with a piece of ours in it, in microseconds. */
double sync_target(const struct controller *c);

/* What a piece may cost, in microseconds. */
double quantum_target(const struct controller *c);

/* A piece was synced, and whoever came in the meantime waited so long for it. Finds how large
 * pieces may be: doubling at first, then in small steps around the target. */
void quantum_adjust(struct controller *c, uint64_t cost_usec);

/* How long to rest after a piece: so long that pieces are at work for their share of the burst, and
 * while there has to be calm; but never so long that the rate falls under its floor, and always so
 * long that it keeps below its ceiling. */
uint64_t quantum_cooldown(const struct controller *c, uint64_t now, uint64_t cost);

/* So long at most, for the rate not to fall under its floor. */
uint64_t quantum_cooldown_most(const struct controller *c, uint64_t cost);

/* When that rest begins: now, or at the end of one that was interrupted. */
uint64_t cooldown_from(const struct controller *c, uint64_t now);

/* What is in it was done, or will be by others: the next begins. */
void quantum_end(struct controller *c);

/* How often a sync that only measures is worth it. */
uint64_t measure_every(const struct controller *c);

/* After the burst a canary goes: the first piece that ends in its second half is synced. */
bool canary_is_next(const struct controller *c, uint64_t now);

/* Is that much of large files? */
bool are_large_files(uint64_t entries, uint64_t bytes);

/* Do pieces go along with others' commits? And the one that ends now? */
bool piggybacks(const struct controller *c);
bool quantum_piggybacks(const struct controller *c, uint64_t now);

/* In so many parts what is granted now is to be done. */
unsigned piggyback_parts(const struct controller *c, uint64_t now);

/* A piece was done that somebody else's commit will take along. */
void piggyback_quantum_end(struct controller *c, uint64_t now);

/* Somebody has committed. */
void piggyback_foreign_commit(struct controller *c, uint64_t now);

/* A job's end had to be durable, and all that was done before is now, too. */
void flush_end(struct controller *c, uint64_t now, uint64_t cost);
