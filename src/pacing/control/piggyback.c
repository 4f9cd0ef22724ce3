/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "piggyback.h"

#include <math.h>

#include "base/macros.h"

/* Commits fade over so long. */
#define MEMORY (500 * USEC_PER_MSEC)
/* With fewer in a second, what is done waits too long for one. */
#define COMMITS_LEAST 5.0
#define COMMITS_FREQUENT 40.0
/* A piece for each of a thousand commits a second would be nothing but work. */
#define PERIOD_LEAST (5 * USEC_PER_MSEC)

void piggyback_sample(struct piggyback *r, uint64_t commits, uint64_t elapsed_usec)
{
	r->activity = r->activity * exp(-(double)elapsed_usec / MEMORY) + (double)commits - r->own;
	r->own = 0;
}

void piggyback_own_commit(struct piggyback *r)
{
	r->own++;
}

static double commits_per_second(const struct piggyback *r)
{
	return r->activity * ((double)USEC_PER_SEC / MEMORY);
}

bool piggyback_is_possible(const struct piggyback *r)
{
	return commits_per_second(r) >= COMMITS_LEAST;
}

bool piggyback_is_frequent(const struct piggyback *r)
{
	return commits_per_second(r) >= COMMITS_FREQUENT;
}

uint64_t piggyback_period_usec(const struct piggyback *r)
{
	return MAX((uint64_t)(USEC_PER_SEC / MAX(commits_per_second(r), 1.0)), PERIOD_LEAST);
}
