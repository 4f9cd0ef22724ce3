/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "piggyback.h"

#include <math.h>

#include "base/macros.h"

/* Commits fade over so long. */
#define MEMORY (500 * USEC_PER_MSEC)
/* With fewer in a second, what is done waits too long for one. */
#define PER_SECOND_LEAST 5.0
#define PER_SECOND_MANY 40.0
/* A piece for each of a thousand commits a second would be nothing but work. */
#define PERIOD_LEAST (5 * USEC_PER_MSEC)

void ride_listen(struct ride *r, uint64_t commits, uint64_t elapsed_usec)
{
	r->heard = r->heard * exp(-(double)elapsed_usec / MEMORY) + (double)commits - r->own;
	r->own = 0;
}

void ride_own(struct ride *r)
{
	r->own++;
}

static double per_second(const struct ride *r)
{
	return r->heard * ((double)USEC_PER_SEC / MEMORY);
}

bool ride_is_offered(const struct ride *r)
{
	return per_second(r) >= PER_SECOND_LEAST;
}

bool ride_is_frequent(const struct ride *r)
{
	return per_second(r) >= PER_SECOND_MANY;
}

uint64_t ride_period_usec(const struct ride *r)
{
	return MAX((uint64_t)(USEC_PER_SEC / MAX(per_second(r), 1.0)), PERIOD_LEAST);
}
