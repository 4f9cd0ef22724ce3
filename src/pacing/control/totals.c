/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "totals.h"

#include <assert.h>
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

void pacing_totals_merge(struct pacing_totals *to, const struct pacing_totals *from)
{
	histogram_merge(&to->reads, &from->reads);
	histogram_merge(&to->syncs, &from->syncs);
	histogram_merge(&to->quanta, &from->quanta);
	for (int i = 0; i < PACING_BACKOFFS; i++)
		to->backoffs[i] += from->backoffs[i];
	to->entries += from->entries;
	to->bytes += from->bytes;
}

const char *pacing_backoff_name(enum pacing_backoff b)
{
	static const char *const names[] = { "foreign-io", "reads", "quantum", "discard" };

	assert(b < PACING_BACKOFFS);
	return names[b];
}
