/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Selection: which names in a policy's directory are entries of the policy, and what their names
 * say about them: the time, the series, the unit, and whether they start a chain. Pure, but for the
 * time zone, which is that of the process.
 *
 * Names are given one component at a time, as a scan finds them: a state leads from a directory to
 * the names in it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "name-time.h"
#include "policy.h"

struct selection;

/* Prepares the patterns of a policy, which stays the caller's and must live as long. Returns 0,
 * -ENOMEM, or -EINVAL for a pattern that the configuration would have refused. */
int selection_new(struct selection **ret, const struct policy *p);
struct selection *selection_free(struct selection *s);

/* Returns how many words a state has. */
size_t selection_words(const struct selection *s);

/* Sets *ret to the state of the policy's directory itself. */
void selection_begin(const struct selection *s, uint64_t *ret);

enum selected {
	SELECTED_NOT,   /* no pattern of match is about it */
	SELECTED_BELOW, /* it is no entry, but something below it may be one */
	SELECTED_OUT, /* a pattern of exclude matches it, so nothing below it is an entry either */
	SELECTED_ENTRY, /* it is an entry if it is of the right kind */
};

/* Goes from a directory with the state `at` to a name in it, whose state is set in `ret`. Sets
 * *ret_deeper if something below the name may be an entry. */
enum selected selection_step(const struct selection *s, const uint64_t *at, const char *name,
			     uint64_t *ret, bool *ret_deeper);

/* Finds the time in a name, which is the path below the directory, for a policy whose clock is
 * CLOCK_NAME. */
enum name_time selection_time(const struct selection *s, const char *name, int64_t now_nsec,
			      int64_t *ret_nsec);

/* Separates what one group of an expression matches from what the next does. No usual name has it.
 */
#define SERIES_SEPARATOR "\x1f"

/* Writes the series of a name, the path below the directory, to `buf`: the text that the groups of
 * group-by match, or "" without group-by. Returns 1, 0 if group-by does not match and the entry
 * belongs to no series, or a negative errno if `buf` is too small or memory is short. */
int selection_series(struct selection *s, const char *name, char *buf, size_t len);

/* Writes the name of the unit of a name to `buf`: the text that the groups of unit-by match, or ""
 * if the entry is a unit of its own. Returns 0 or a negative errno. */
int selection_unit(struct selection *s, const char *name, char *buf, size_t len);

/* Returns true if a pattern of chain-start matches a name, the path below the directory. */
bool selection_starts_chain(const struct selection *s, const char *name);

/* Returns NULL, or what is wrong with an expression for group-by or unit-by, as text to follow
 * "expected". */
const char *series_check(const char *expression);
