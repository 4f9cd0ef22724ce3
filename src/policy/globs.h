/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Patterns for paths below a directory, followed one name at a time. Pure.
 *
 * A pattern is a list of names with slashes between them: "*.tar.gz" is about entries of the
 * directory itself, "x/y.tar.gz" about entries of its directory x. Two stars alone stand for any
 * number of directories, including none; at the end of a pattern they stand for everything below.
 * In a name, * stands for any characters, ? for one, [...] for one of a set, and a backslash quotes
 * the next character. Characters are those of UTF-8, whatever the locale (characters.h).
 *
 * In patterns of match, a name that begins with a dot is matched only by a pattern that does. In
 * patterns of exclude, any pattern may match it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct globs;

/* Returns NULL, or what a pattern should be instead, as text to follow "expected". */
const char *glob_check(const char *pattern);

/* How deep a pattern reaches: the number of its names; UINT_MAX with two stars. */
unsigned glob_depth(const char *pattern);

/* Prepares patterns: NULL-terminated, or NULL for none. Returns 0, -ENOMEM, or another negative
 * errno if glob_check refuses one of them. */
int globs_new(struct globs **ret, char *const *patterns, bool exclude, bool ignore_case);
struct globs *globs_free(struct globs *g);

/* How many words the state of a walk has: one for each pattern. */
size_t globs_words(const struct globs *g);

/* The state at the directory itself. */
void globs_begin(const struct globs *g, uint64_t *ret);

/* Goes one name down from state `at` to `ret`. Returns true if the path with this name matches.
 * *ret_deeper says whether anything beneath it still may. */
bool globs_step(const struct globs *g, const uint64_t *at, const char *name, uint64_t *ret,
		bool *ret_deeper);

/* Returns true if a pattern matches a path as a whole. */
bool globs_match(const struct globs *g, const char *path);
