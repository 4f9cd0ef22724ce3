/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "discard-limits.h"

#include "base/macros.h"

/* btrfs rests 1 s / iops in whole milliseconds, and the kernel's clock makes ticks of them, rounded
 * down: less than 10 ms may be none at all where HZ is 100. */
#define IOPS_MOST 100
#define IOPS_LEAST 10

/* Measured on a simulated disk that takes 0.5 ms for each MiB; see docs/benchmarks.md. */
#define BYTES_FIRST MiB(1)
/* btrfs discards nothing smaller than 32 KiB. */
#define BYTES_LEAST KiB(64)
#define BYTES_MOST MiB(64) /* what btrfs begins with */

/* Discards are at work for an eighth of the time. */
#define SHARE 8

static uint64_t most(uint64_t before, uint64_t bound)
{
	return before > 0 ? MIN(before, bound) : bound;
}

struct discard_limits discard_limits_first(const struct discard_limits *before)
{
	return (struct discard_limits){ most(before->iops, IOPS_MOST),
					most(before->max_bytes, BYTES_FIRST) };
}

struct discard_limits discard_limits_next(const struct discard_limits *now,
					  const struct discard_limits *before, uint64_t target_usec,
					  uint64_t n, uint64_t usec)
{
	struct discard_limits next = *now;
	uint64_t cost;

	if (n < DISCARDS_ENOUGH || target_usec == 0)
		return next;
	cost = MAX(usec / n, 1ULL);
	if (cost > target_usec)
		next.max_bytes = MAX(next.max_bytes / 2, BYTES_LEAST);
	else if (cost < target_usec / 4)
		next.max_bytes *= 2;
	next.max_bytes = MIN(next.max_bytes, most(before->max_bytes, BYTES_MOST));
	next.iops = MAX(USEC_PER_SEC / SHARE / cost, (uint64_t)IOPS_LEAST);
	next.iops = MIN(next.iops, most(before->iops, IOPS_MOST));
	return next;
}
