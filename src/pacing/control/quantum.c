/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "quantum.h"

#include <string.h>

#include "base/macros.h"

uint64_t quantum_left(const struct quantum_size *s, unsigned parts)
{
	uint64_t limit = MAX(s->limit / parts, 1);

	return limit - MIN(s->used, limit - 1);
}

bool quantum_is_full(const struct quantum_size *s, unsigned parts)
{
	uint64_t limit = s->limit / parts;

	return s->used >= limit - limit / 16;
}

void quantum_bound(struct quantum_size *s, uint64_t most)
{
	s->most = MAX(most, s->least);
	s->limit = MIN(s->limit, s->most);
}

void quantum_scale(struct quantum_size *s, double by)
{
	double limit = (double)s->limit * by;

	s->limit = (uint64_t)CLAMP(limit, (double)s->least, (double)s->most);
}

void window_add(struct cost_window *w, unsigned size, uint64_t v)
{
	w->v[w->next] = v;
	w->next = (w->next + 1) % size;
	w->n = MIN(w->n + 1, size);
}

/* The one that so many are below. */
static uint64_t ranked(const struct cost_window *w, unsigned rank)
{
	uint64_t v[PACING_CANARIES];

	if (w->n == 0)
		return 0;
	memcpy(v, w->v, sizeof(v));
	for (unsigned i = 1; i < w->n; i++)
		for (unsigned j = i; j > 0 && v[j - 1] > v[j]; j--) {
			uint64_t t = v[j];

			v[j] = v[j - 1];
			v[j - 1] = t;
		}
	return v[rank];
}

uint64_t window_median(const struct cost_window *w)
{
	return ranked(w, w->n / 2);
}

uint64_t window_quartile(const struct cost_window *w)
{
	return ranked(w, w->n / 4);
}
