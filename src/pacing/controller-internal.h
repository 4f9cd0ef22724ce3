/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the controller's own files know of each other: controller.c (modes, phases, pieces),
 * controller-size.c (how large pieces may be) and controller-share.c (for which share of a burst
 * they are at work). */
#pragma once

#include "controller.h"

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

/* A piece was synced, and whoever came in the meantime waited so long for it. Finds how large
 * pieces may be: doubling at first, then in small steps around the target. */
void size_adjust(struct controller *c, uint64_t cost_usec);
