/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Patterns for paths beneath a directory, walked one name at a time. Pure.
 *
 * A pattern is names for fnmatch(3) with slashes between them: "*.tar.gz" means entries of the
 * directory itself, and with "x/" before it those of x. Two stars alone stand for any number of
 * directories, none included, and at the end for everything beneath. A name that begins with a dot
 * is matched only by a pattern that does, where the globs are for matching; where they are for
 * excluding, by all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct globs;

/* Says in words what is wrong with a pattern, to follow "expected"; NULL if nothing is. */
const char *glob_check(const char *pattern);

/* How deep a pattern reaches: the number of its names; UINT_MAX with two stars. */
unsigned glob_depth(const char *pattern);

/* Takes patterns apart (NULL-terminated; NULL for none), each as glob_check wants it. Returns 0 or
 * -ENOMEM. */
int globs_new(struct globs **ret, char *const *patterns, bool exclude);
struct globs *globs_free(struct globs *g);

/* How many words the state of a walk has: one for each pattern. */
size_t globs_words(const struct globs *g);

/* The state at the directory itself. */
void globs_begin(const struct globs *g, uint64_t *ret);

/* Goes one name down from state `at` to `ret`. Returns true if the path with this name matches.
 * *ret_deeper says whether anything beneath it still may. */
bool globs_step(const struct globs *g, const uint64_t *at, const char *name, uint64_t *ret,
		bool *ret_deeper);
