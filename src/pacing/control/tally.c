/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tally.h"

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

	return names[b];
}
