/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes durable what was removed: at a job's end, or once for several that ended together. A flush
 * is a slice of its own to the pace, so that it waits for its turn and is not taken for
 * foreground I/O. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct serving;

struct flush {
	int dirfd;          /* O_PATH will do */
	const char **names; /* of directories in it, in the order in which they were changed */
	size_t n;           /* 0: dirfd itself is what was changed */
};

/* Waits for its turn, unless cancelled, and flushes. Returns 0, or a negative errno if the flush
 * was in vain: all that was to be durable may be there again after a power cut. Filesystems that
 * cannot flush a directory have no say in it. */
int flush_make(struct serving *s, const struct flush *f, const _Atomic bool *cancelled);
