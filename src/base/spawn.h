/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Starting a program of the project with what it is given and nothing else. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* The first descriptor that it gets beyond the standard ones. */
#define SPAWN_FD 3

/* Runs the program at `path` as `name`, with duplicates of fds[0..n-1] as its descriptors 3, 4...,
 * /dev/null for standard input and output, all signals as they are by default and none blocked, in
 * a process group of its own, which the terminal's signals do not reach. Descriptors of this
 * process that are not closed by exec stay. Returns 0 or a negative errno. */
int spawn_program(const char *path, const char *name, char *const *env, const int *fds, size_t n,
		  pid_t *ret);
