/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How large the discards may be that btrfs makes by itself, and how many of them in a second. Pure:
 * the limits are set elsewhere (pacing/discards). */
#pragma once

#include <stdint.h>

/* As in /sys/fs/btrfs/UUID/discard; 0: unlimited. */
struct discard_limits {
	uint64_t iops;      /* discards a second */
	uint64_t max_bytes; /* of each */
};

/* Of fewer discards, one that was slow by chance is too much of the mean. */
#define DISCARDS_ENOUGH 8

/* What to begin with: no more than `before`, which held without us. */
struct discard_limits discard_limits_first(const struct discard_limits *before);

/* The limits from now on, after n discards that took `usec` in all: a foreign request waits for
 * one of them, and that may take target_usec. They are at most those of `before`, and stay as they
 * are where n is less than DISCARDS_ENOUGH. */
struct discard_limits discard_limits_next(const struct discard_limits *now,
					  const struct discard_limits *before, uint64_t target_usec,
					  uint64_t n, uint64_t usec);
