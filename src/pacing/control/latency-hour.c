/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "latency-hour.h"

#include <assert.h>

#include "base/macros.h"

#define MINUTE (60 * USEC_PER_SEC)

const char *latency_kind_name(enum latency_kind kind)
{
	static const char *const names[] = { "reads", "syncs" };

	assert(kind < LATENCY_KINDS);
	return names[kind];
}

static uint64_t number_at(uint64_t usec)
{
	return usec / MINUTE + 1;
}

static void count(uint32_t *to, uint64_t times)
{
	*to += (uint32_t)MIN(times, (uint64_t)(UINT32_MAX - *to));
}

void latency_hour_add(struct latency_hour *h, uint64_t now_usec, enum latency_kind kind,
		      bool deleting, uint64_t usec, uint64_t times)
{
	uint64_t number = number_at(now_usec);
	struct latency_minute *m = &h->minutes[number % LATENCY_MINUTES];

	assert(kind < LATENCY_KINDS);
	if (m->number != number)
		*m = (struct latency_minute){ .number = number };
	count(&m->counts[kind][deleting][histogram_place(usec)], times);
}

void latency_hour_merge(struct latency_hour *to, const struct latency_hour *from)
{
	for (size_t i = 0; i < LATENCY_MINUTES; i++) {
		struct latency_minute *m = &to->minutes[i];
		const struct latency_minute *other = &from->minutes[i];
		const uint32_t *counted = &other->counts[0][0][0];
		uint32_t *sum = &m->counts[0][0][0];

		if (other->number > m->number)
			*m = *other;
		else if (other->number == m->number)
			for (size_t k = 0; k < sizeof(m->counts) / sizeof(*sum); k++)
				count(&sum[k], counted[k]);
	}
}

static uint64_t sum_of(const uint32_t *counts)
{
	uint64_t sum = 0;

	for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
		sum += counts[i];
	return sum;
}

/* So many of 1000 took no longer, about: between two bounds they are taken to lie evenly. */
static uint64_t within(const uint32_t *counts, uint64_t of_1000)
{
	uint64_t rank = (sum_of(counts) * of_1000 + 999) / 1000, before = 0, from, to;
	size_t i = 0;

	assert(rank > 0);
	while (before + counts[i] < rank)
		before += counts[i++];
	from = i > 0 ? histogram_bounds_usec[i - 1] : 0;
	/* How long those took that are above all bounds is not known. */
	to = i < HISTOGRAM_BOUNDS ? histogram_bounds_usec[i] : from;
	return from + (to - from) * (rank - before) / counts[i];
}

size_t latency_hour_figures(const struct latency_hour *h, uint64_t now_usec,
			    struct latency_figures *ret)
{
	uint64_t now = number_at(now_usec);
	size_t n = 0;

	for (uint64_t number = now - MIN(now - 1, LATENCY_MINUTES - 1ULL); number <= now;
	     number++) {
		const struct latency_minute *m = &h->minutes[number % LATENCY_MINUTES];

		for (unsigned i = 0; m->number == number && i < 2 * LATENCY_KINDS; i++) {
			const uint32_t *counts = m->counts[i / 2][i % 2];

			if (sum_of(counts) == 0)
				continue;
			ret[n++] = (struct latency_figures){
				.kind = (enum latency_kind)(i / 2),
				.deleting = i % 2 == 1,
				.age_usec = now_usec - (number - 1) * MINUTE,
				.count = sum_of(counts),
				.half_usec = within(counts, 500),
				.most_usec = within(counts, 990),
			};
		}
	}
	return n;
}
