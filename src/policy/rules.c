/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "rules.h"

#include <errno.h>
#include <stdlib.h>

#include "retention.h"

bool policy_space_is_set(const struct policy_space *s)
{
	return s->share > 0 || s->bytes > 0;
}

uint64_t policy_space_bytes(const struct policy_space *s, uint64_t size_bytes)
{
	return s->is_share ? (uint64_t)(s->share * (double)size_bytes) : s->bytes;
}

bool policy_has_keep(const struct policy *p)
{
	for (int i = 0; i < KEEP_WITHIN; i++)
		if (p->keep.periods[i] > 0)
			return true;
	return p->keep.within_usec > 0;
}

bool policy_has_min_free(const struct policy *p)
{
	return policy_space_is_set(&p->min_free_below);
}

bool policy_has_min_inodes(const struct policy *p)
{
	return policy_space_is_set(&p->min_inodes_below);
}

uint64_t policy_max_size(const struct policy *p)
{
	return p->max_size_bytes > 0 ? p->max_size_bytes : p->max_series_size_bytes;
}

bool policy_has_marks(const struct policy *p)
{
	return policy_has_min_free(p) || policy_has_min_inodes(p) || policy_max_size(p) > 0;
}

bool policy_has_rules(const struct policy *p)
{
	return policy_has_keep(p) || p->max_age_usec > 0 || p->max_files > 0 || policy_has_marks(p);
}

int rules_decide(struct policy_plan *ret, const struct policy *p, struct policy_entries *l,
		 struct policy_moment now)
{
	struct policy_plan plan = { .order = malloc((l->n + 1) * sizeof(*plan.order)) };
	int r;

	if (!plan.order)
		return -ENOMEM;
	r = retention_decide(p, l, &now, plan.order);
	if (r >= 0)
		r = limits_decide(&plan, p, l, &now);
	if (r < 0)
		policy_plan_done(&plan);
	else
		*ret = plan;
	return r;
}

void policy_plan_done(struct policy_plan *p)
{
	free(p->order);
	*p = (struct policy_plan){ 0 };
}
