/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Starting a program of the project: a worker, a proxy, reclaim-moosefs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The first descriptor that it gets beyond the standard ones. */
#define SPAWN_FD 3

/* Runs the program at `path` as `name`, with duplicates of fds[0..n-1] as its descriptors 3, 4...,
 * four at most; /dev/null for standard input and output, and this process's standard error; all
 * signals as they are by default and none blocked. own_group: in a process group of its own, which
 * the terminal's signals do not reach. Other descriptors of this process that exec does not close
 * stay open: the program closes them. Returns 0 or a negative errno; then nothing runs. */
int spawn_program(const char *path, const char *name, char *const *env, const int *fds, size_t n,
		  bool own_group, pid_t *ret);
