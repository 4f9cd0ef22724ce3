/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What has to be true of several keys together, of all files. */
#pragma once

#include "config-yaml.h"

/* `root` is the tree that *c was read from, for the places; NULL if nothing was read. */
void rules_check(const struct config *c, const struct node *root, struct problems *p);

/* `until` must not be less than `below`, nor of another sort; `map` is where they are said. */
void rules_check_band(const struct policy_space *below, const struct policy_space *until,
		      const struct node *map, const struct crumb *in, struct problems *p);
