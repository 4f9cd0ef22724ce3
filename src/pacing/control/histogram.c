/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "histogram.h"

#include <stddef.h>

/* From an SSD's read to a disk that drowns in trims. */
const uint64_t histogram_bounds_usec[HISTOGRAM_BOUNDS] = {
	100,   250,    500,    1000,   2500,    5000,    10000,   25000,
	50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000,
};

void histogram_add(struct histogram *h, uint64_t usec, uint64_t times)
{
	size_t i = 0;

	while (i < HISTOGRAM_BOUNDS && usec > histogram_bounds_usec[i])
		i++;
	h->counts[i] += times;
	h->sum_usec += usec * times;
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
		to->counts[i] += from->counts[i];
	to->sum_usec += from->sum_usec;
}
