/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ride.h"

#include <math.h>

#include "util/macros.h"

/* Commits fade over so long. */
#define MEMORY (500 * USEC_PER_MSEC)
/* A second must have so many that a gap (controller.c) sees one: what was done before the gap is
 * then no more part of what is measured in it. */
#define PER_SECOND_LEAST 40.0
/* So often we commit ourselves all the same, to measure: too seldom for anybody's p99 at 100
 * commits a second, and often enough to follow a device that changes. */
#define OWN_EVERY USEC_PER_SEC
/* A piece for each of a thousand commits a second would be nothing but work. */
#define PERIOD_LEAST (5 * USEC_PER_MSEC)

void ride_listen(struct ride *r, uint64_t commits, uint64_t elapsed_usec)
{
	r->heard = r->heard * exp(-(double)elapsed_usec / MEMORY) + (double)commits;
}

void ride_synced(struct ride *r, uint64_t now_usec)
{
	r->heard = MAX(r->heard - 1, 0.0);
	r->synced_usec = now_usec;
}

static double per_second(const struct ride *r)
{
	return r->heard * ((double)USEC_PER_SEC / MEMORY);
}

bool ride_is_offered(const struct ride *r, uint64_t now_usec)
{
	return per_second(r) >= PER_SECOND_LEAST && now_usec - r->synced_usec < OWN_EVERY;
}

uint64_t ride_period_usec(const struct ride *r)
{
	return MAX((uint64_t)(USEC_PER_SEC / MAX(per_second(r), 1.0)), PERIOD_LEAST);
}
