/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which filesystems `trim` is about: those of the paths that it is given, or all that fstrim --all
 * would take, each once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "trim/trim.h"

struct options;

enum trim_outcome {
	TRIM_WAITS,   /* for its turn */
	TRIM_DONE,    /* as a whole */
	TRIM_STOPPED, /* by a signal, after a part of it */
	TRIM_SKIPPED, /* nothing is wrong, and there is nothing to be done */
	TRIM_FAILED,  /* it has been said why */
};

struct trim_path {
	char *path;
	int fd; /* on its filesystem */
	struct trim_target target;
	struct trim_result result;
	enum trim_outcome outcome;
	char why[384]; /* of TRIM_SKIPPED and TRIM_FAILED: a sentence without its end */
};

struct trim_paths {
	struct trim_path *v;
	size_t n;
	size_t absent; /* of those that were given, and are none of v: it has been said why */
};

/* Fails, as the others do, a filesystem that waits and is smaller than min_bytes. */
void trim_path_check_min(struct trim_path *p, uint64_t min_bytes);

/* Opens them. What cannot be trimmed is among them, with its outcome, and what of it is an error
 * has been said. With -v it also says which mounts --all leaves out, and why. Returns 0, or
 * EXIT_FAILED after having said that there is no memory, or no mount table. */
int trim_paths_find(struct trim_paths *p, const struct options *o);

void trim_paths_done(struct trim_paths *p);

/* There is nothing to be done: keeps why. */
void trim_path_skip(struct trim_path *p, const char *format, ...) _printf_(2, 3);

/* It has failed: keeps why, and says so. */
void trim_path_fail(struct trim_path *p, const char *format, ...) _printf_(2, 3);
