/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How large a piece of work may be, in one dimension, and what pieces have cost. Pure; parts of the
 * controller. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One dimension of a piece: entries or bytes. */
struct quantum_size {
	uint64_t limit, least, most;
	uint64_t used; /* of the piece that is being done */
};

#define PACING_CANARIES 16
#define PACING_COSTS 7

/* The newest few values. Of what pieces cost, the middle one is believed: one that met somebody
 * else's commit says nothing. */
struct cost_window {
	uint64_t v[PACING_CANARIES];
	unsigned n, next;
};

/* How much of it is left, at least 1, where a piece is cut into so many parts. */
uint64_t quantum_left(const struct quantum_size *s, unsigned parts);

/* Is what is left of a part not worth a slice of its own? */
bool quantum_is_full(const struct quantum_size *s, unsigned parts);

/* From now on it is no larger than that, or than the least it may be. */
void quantum_bound(struct quantum_size *s, uint64_t most);

/* Larger or smaller from now on, within its bounds. */
void quantum_scale(struct quantum_size *s, double by);

/* Keeps the newest `size` values, at most PACING_CANARIES. */
void window_add(struct cost_window *w, unsigned size, uint64_t v);

/* The middle one, the upper of two; 0 if there are none. */
uint64_t window_median(const struct cost_window *w);

/* A quarter is below it; 0 if there are none. */
uint64_t window_quartile(const struct cost_window *w);
