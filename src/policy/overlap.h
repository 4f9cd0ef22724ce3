/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two policies that are about the same entries: keep wins. What a rule of keep of either keeps, the
 * other does not delete, nor a tree that has it in it, nor anything in a tree that is kept. Pure.
 */
#pragma once

#include <stdbool.h>

#include "entries.h"
#include "policy.h"

/* May they be about the same entries? Told from paths, patterns and sizes alone, so that it may be
 * true of two that never are, but not the other way. Both have a path. */
bool policies_meet(const struct policy *a, const struct policy *b);

/* Marks in `l`, the entries of a policy with the path `base`, what may not be deleted as another
 * policy keeps it: the entries of that, decided, and its path. One of the paths is or lies in the
 * other. Returns 0 or -ENOMEM. */
int overlap_hold(struct policy_entries *l, const char *base, const struct policy_entries *other,
		 const char *other_base);
