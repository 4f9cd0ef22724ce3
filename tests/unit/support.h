/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What unit tests share: running one suite, and trees made from a short text. */
#pragma once

#include <check.h>
#include <errno.h>
#include <stddef.h>

/* Runs one case of tests, in a child. Returns the exit status for main. */
int run_case(const char *name, const TTest *const *tests, size_t n);

/* The same for a case that has a fixture. Takes over the suite and the case. */
int run_tests(Suite *s, TCase *tc, const TTest *const *tests, size_t n);

/* Makes a scratch directory; its path is in buf. scratch_remove deletes it with all content; what
 * is left of all of them when the run ends, however it does, is deleted then. */
void scratch_make(char *buf, size_t len);
void scratch_remove(const char *path);

/* Makes entries beneath dir from words: "a/" a directory, "a/b" a file, "a/l>x" a symbolic link. */
void tree_make(const char *dir, const char *text);

/* Writes a file beneath dir anew, and symbolic links, with the directories on the way to them. */
void file_make(const char *dir, const char *name, const char *text);
void link_make(const char *dir, const char *name, const char *target);

/* How many entries a directory has, all levels, itself not counted. */
size_t tree_count(const char *dir);

/* Has the C library go by a zone of tzdata, such as Europe/Berlin. */
void zone_set(const char *zone);

/* For what runs in a child and returns the line of the first surprise: a call that has to fail, and
 * with this error; and one that must not. */
#define FAILS_WITH(error, call)                                                                    \
	do {                                                                                       \
		errno = 0;                                                                         \
		if ((call) >= 0 || errno != (error))                                               \
			return __LINE__;                                                           \
	} while (0)
#define SUCCEEDS(call)                                                                             \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			return __LINE__;                                                           \
	} while (0)
