/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Leaves to reclaimd, if it runs, what a deletion of this process leaves for the kernel to write
 * back (pacing/debt/payer.h): only root may open the disk. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct options;

/* Waits until reclaimd has done it, or *cancelled. dirfd: a directory on the filesystem that so
 * much was deleted from. Says and starts nothing. Returns 0 or a negative errno: -ENOTCONN if no
 * reclaimd runs, -ECANCELED, or what it answers, as sd-bus has it. */
int debt_leave(const struct options *o, int dirfd, uint64_t entries, uint64_t bytes,
	       const _Atomic bool *cancelled);
