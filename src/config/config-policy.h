/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* policies: which keys they have, and what must be true of them. */
#pragma once

#include "config-keys.h"
#include "config-yaml.h"

extern const struct named config_policies;

/* What has to be true of several keys, or several policies, together. */
void policies_check(const struct config *c, const struct node *root, struct problems *p);

/* Frees what it owns. */
void config_policy_done(struct config_policy *p);
