/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs a program for a caller of any kind: in a signal handler, one of many threads, a child
 * of vfork(2), with children of its own that it waits for. Calls nothing but the kernel; the caller
 * never gets to know of a child, nor a signal of its end. */
#pragma once

#include <stdint.h>

struct helper {
	const char *path;
	char *const *argv, *const *envp;
	int fd; /* at least 3: the program has it, at the same number, and /dev/null at 0 to 2 */
	uint64_t timeout_usec;
};

/* Returns when it has ended, or was killed because it took too long, or could not be run. What it
 * has done is to be seen from what is there. May change errno. */
void helper_run(const struct helper *h);
