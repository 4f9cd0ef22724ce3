/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Extended regular expressions, regex(7), as regcomp(3) of glibc reads them in the locale C.UTF-8,
 * without back-references, for names that any user may choose. Characters are those of
 * characters.h, whatever the locale of the environment.
 *
 * The time for a name is at most proportional to its length and to that of the expression, and so
 * is the memory; no recursion is deeper than PATTERN_DEPTH. The C library promises neither: nested
 * repetitions make it run for ever, many parentheses overflow its stack.
 *
 * A match is the leftmost one, and of these the longest; the groups match what they match in glibc.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define PATTERN_GROUPS 9
#define PATTERN_DEPTH 20   /* of parentheses, and of repetitions of one repetition */
#define PATTERN_STEPS 2000 /* that an expression may have, each repetition written out */

struct pattern;

/* Offsets in bytes. Both are -1 for a group that has no part in the match. */
struct pattern_group {
	int begin, end;
};

/* Returns 0, -ENOMEM; or with *ret_why (static, to follow "expected"): -EINVAL if that is no
 * expression with one to PATTERN_GROUPS groups, -E2BIG if it is more than is taken. */
int pattern_new(struct pattern **ret, const char *expression, const char **ret_why);
struct pattern *pattern_free(struct pattern *p);

/* How many groups it has. */
unsigned pattern_groups(const struct pattern *p);

/* Returns 1 if it matches, with *ret of what group i + 1 matches in ret[i]; 0 if not; -ENOMEM; or
 * -E2BIG for a text that no path can be. */
int pattern_match(struct pattern *p, const char *text, struct pattern_group ret[PATTERN_GROUPS]);

/* Steps that matching has taken so far. For tests. */
unsigned long long pattern_work(const struct pattern *p);
