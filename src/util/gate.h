/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Test gates: places between look and act where a test can stop the process and change the world,
 * so that races are made certain instead of likely. Compiled in only with RECLAIM_TEST_GATES (the
 * dev presets); in other builds a gate is nothing at all. */
#pragma once

#ifdef RECLAIM_TEST_GATES
/* Stops the whole process (SIGSTOP), once, if the environment's RECLAIM_GATE is "POINT:NAME". */
void gate(const char *point, const char *name);
#else
static inline void gate(const char *point, const char *name)
{
	(void)point;
	(void)name;
}
#endif
