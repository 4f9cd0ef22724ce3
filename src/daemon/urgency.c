/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "urgency.h"

#include "config/config.h"
#include "util/macros.h"

static uint64_t bytes_of(const struct policy_space *space, uint64_t all_bytes)
{
	return space->is_share ? (uint64_t)(space->share * (double)all_bytes) : space->bytes;
}

bool urgency_space(const struct policy_space *below, const struct policy_space *until,
		   const struct space *s, bool on)
{
	return s->free_bytes < bytes_of(on ? until : below, s->all_bytes);
}

bool urgency_is_near(const struct policy_space *below, const struct space *s)
{
	return s->free_bytes / 2 < bytes_of(below, s->all_bytes);
}

static double left_usec(const struct course *c)
{
	double each = (double)(c->now_usec - c->begun_usec) / (double)c->done;

	return each * (double)(c->all - MIN(c->done, c->all));
}

uint64_t urgency_ends_usec(const struct course *c)
{
	double left = c->done > 0 ? left_usec(c) : (double)UINT64_MAX;

	return left < (double)INT64_MAX ? c->now_usec + (uint64_t)left : UINT64_MAX;
}

bool urgency_presses(const struct course *c)
{
	if (c->now_usec >= c->by_usec)
		return true;
	if (c->done == 0)
		return c->now_usec - c->begun_usec >= c->by_usec - c->now_usec;
	return 1.1 * left_usec(c) > (double)(c->by_usec - c->now_usec);
}
