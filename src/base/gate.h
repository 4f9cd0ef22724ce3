/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Test gates: places between look and act where a test can stop the process and change the world,
 * so that races are made certain instead of likely. Compiled in only with RECLAIM_TEST_GATES (the
 * dev presets); in other builds a gate is nothing at all. */
#pragma once

#include <stdint.h>

#ifdef RECLAIM_TEST_GATES
/* What a test adds to the wall clock, which it must not set: the number in the file that the
 * environment's RECLAIM_CLOCK names, in microseconds. */
int64_t gate_clock_usec(void);

/* How long the lease of a host of a fleet is, by the environment's RECLAIM_LEASE, in milliseconds;
 * 0: as long as it is otherwise. */
uint64_t gate_lease_msec(void);

/* Stops the whole process (SIGSTOP), once, if the environment's RECLAIM_GATE is "POINT:NAME". */
void gate(const char *point, const char *name);
#else
static inline int64_t gate_clock_usec(void)
{
	return 0;
}

static inline uint64_t gate_lease_msec(void)
{
	return 0;
}

static inline uint64_t gate_again_msec(void)
{
	return 0;
}

static inline void gate(const char *point, const char *name)
{
	(void)point;
	(void)name;
}
#endif
