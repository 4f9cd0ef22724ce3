/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The entries that a policy is about: a list that may be long, so that a million take some 100 MiB.
 * Owns the names. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fate.h"

struct policy_entry {
	const char *name;   /* path beneath the policy's directory */
	const char *series; /* it belongs to; "" without group-by */
	int64_t time_nsec;  /* since the epoch */
	uint64_t bytes;     /* that deleting it frees */
	uint32_t uid;
	uint16_t kept_by; /* rules of keep, as bits; filled by rules_decide */
	/* FATE_OPEN, or why it is kept whatever the rules say; then what rules_decide says. */
	uint8_t fate; /* enum policy_fate */
};

struct arena_block;

/* All zero is empty. */
struct policy_entries {
	struct policy_entry *v;
	size_t n, cap;
	struct arena_block *blocks; /* of the names */
};

/* Adds a copy of *e. Returns 0, -ENOMEM, or -E2BIG when there are 2^32 of them. */
int entries_add(struct policy_entries *l, const struct policy_entry *e);
void entries_done(struct policy_entries *l);
