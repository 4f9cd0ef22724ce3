/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "urgency.h"

#include "policy/policy.h"
#include "base/macros.h"

#define LOOK_LEAST (100 * USEC_PER_MSEC)

bool urgency_space(const struct policy_space *below, const struct policy_space *until,
		   const struct space *s, bool on)
{
	return s->free < policy_space_bytes(on ? until : below, s->all);
}

bool urgency_is_near(const struct policy_space *below, const struct space *s)
{
	return s->free / 2 < policy_space_bytes(below, s->all);
}

uint64_t urgency_look_usec(const struct policy_space *below, const struct space *s, uint64_t rate,
			   uint64_t most)
{
	uint64_t mark = policy_space_bytes(below, s->all);
	uint64_t left = s->free > mark ? s->free - mark : 0;
	uint64_t look = CLAMP(left / most * USEC_PER_SEC, USEC_PER_SEC, URGENCY_LOOK_MOST);
	double half = rate > 0 ? (double)left / (double)rate / 2 * USEC_PER_SEC : (double)look;

	return half < (double)look ? MAX((uint64_t)half, LOOK_LEAST) : look;
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
