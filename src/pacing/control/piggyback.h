/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Riding: where others commit often, their commits take along what we did, and we need not commit
 * ourselves. Whoever meets a commit of ours waits for that and then for his own; one who takes
 * along a small part of what we might have committed does not notice. Pure; part of the
 * controller. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct piggyback {
	double activity; /* others' commits lately, fading; below nothing where ours are heard late
			  */
	unsigned own;    /* ours since the last look */
};

/* So many commits have come since the last look, ours included, in so long. */
void piggyback_sample(struct piggyback *r, uint64_t commits, uint64_t elapsed_usec);

/* One of them was ours. */
void piggyback_own_commit(struct piggyback *r);

/* Do others commit so often that what is done now is soon on the device? */
bool piggyback_is_possible(const struct piggyback *r);

/* And so often that a piece in parts can go along, one with each? */
bool piggyback_is_frequent(const struct piggyback *r);

/* The time from one of others' commits to the next. */
uint64_t piggyback_period_usec(const struct piggyback *r);
