/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The rules of a policy, applied: entries, the time and the free space in, a plan out. Pure; the
 * same input gives the same plan, in whatever order the entries come.
 *
 *   1. Selection (selection.h) and the scan found the entries, and those that must be kept whatever
 *      the rules say.
 *   2. Retention (retention.h) decides, series by series, what keep, min-count and min-age keep,
 *      and what keep and max-age delete.
 *   3. Limits (limits.h) take what they need of the rest; max-delete bounds what one run deletes.
 */
#pragma once

#include "limits.h"

/* Fills *ret and the dispositions of all entries. Returns 0 or -ENOMEM. */
int rules_decide(struct policy_plan *ret, const struct policy *p, struct policy_entries *l,
		 struct policy_moment now);
void policy_plan_done(struct policy_plan *p);
