/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The free runs of an ext2, ext3 or ext4, from its block bitmaps. They are read from the device, in
 * whose page cache a mounted filesystem has them: as they are now, but for blocks that are about to
 * be used, or were freed since the last commit.
 *
 * A run lies in one block group. Nothing here allocates. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "pacing/debt/ext-metadata.h"

/* The largest block of ext4; a bitmap is one. */
#define EXT_BITMAP_MOST 65536

struct ext_runs {
	struct ext_metadata metadata;
	struct ext_group group; /* that `bitmap` is of; start and end are 0 if there is none */
	bool whole;             /* of which nothing is known: it is taken as free */
	uint8_t bitmap[EXT_BITMAP_MOST];
};

/* For the filesystem on this device, which is open for reading and so large. As ext_metadata_open;
 * on -EOPNOTSUPP, the addresses in `metadata` are known, and there are no runs. */
int ext_runs_open(struct ext_runs *r, int fd, uint64_t size);

/* The first free run that ends behind `from`, and what of it is not before that. Returns true, or
 * false if there is none. After many groups with little or no free space, an empty run at the
 * place that was reached. Where a bitmap cannot be read, or is damaged, its group is one run. */
bool ext_runs_next(void *runs, uint64_t from, uint64_t *ret_start, uint64_t *ret_end);
