/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How often something took how long, in steps that are the same for everything that is measured, so
 * that histograms can be added up. Embedded by its users; all zero is an empty one. */
#pragma once

#include <stdint.h>

#define HISTOGRAM_BOUNDS 16

struct histogram {
	/* Of those that took up to histogram_bounds_usec[i], but more than the bound before; the
	 * last is of all that took longer than any bound. */
	uint64_t counts[HISTOGRAM_BOUNDS + 1];
	uint64_t sum_usec;
};

extern const uint64_t histogram_bounds_usec[HISTOGRAM_BOUNDS];

/* So many of them took so long each. */
void histogram_add(struct histogram *h, uint64_t usec, uint64_t times);
void histogram_merge(struct histogram *to, const struct histogram *from);
