/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which keys there are, what they may be, and where they go: one table. */
#pragma once

#include "config-yaml.h"

/* Fills *c (all zero before) with what the table has as defaults. */
int schema_defaults(struct config *c);

/* Reads a tree into *c, which has the defaults. Paths in the tree are tidied on the way, so that
 * the same path is the same text. `root` may be NULL. What is wrong goes to p, and *c is then good
 * for nothing but config_free. Returns 0 or -ENOMEM. */
int schema_read(struct config *c, struct node *root, struct problems *p);
