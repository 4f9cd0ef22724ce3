/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "totals.h"

#include <assert.h>

/* From an SSD's read to a disk that drowns in trims. */
const uint64_t histogram_bounds_usec[HISTOGRAM_BOUNDS] = {
	100,   250,    500,    1000,   2500,    5000,    10000,   25000,
	50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000,
};

size_t histogram_place(uint64_t usec)
{
	size_t i = 0;

	while (i < HISTOGRAM_BOUNDS && usec > histogram_bounds_usec[i])
		i++;
	return i;
}

void histogram_add(struct histogram *h, uint64_t usec, uint64_t times)
{
	h->counts[histogram_place(usec)] += times;
	h->sum_usec += usec * times;
}

void pacing_totals_merge(struct pacing_totals *to, const struct pacing_totals *from)
{
	const uint64_t *counted = (const uint64_t *)from;
	uint64_t *sum = (uint64_t *)to;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*sum); i++)
		sum[i] += counted[i];
}

const char *pacing_backoff_name(enum pacing_backoff b)
{
	static const char *const names[] = { "foreign-io", "reads", "quantum", "discard" };

	assert(b < PACING_BACKOFFS);
	return names[b];
}
