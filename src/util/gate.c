/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gate.h"

#ifdef RECLAIM_TEST_GATES
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_flag passed = ATOMIC_FLAG_INIT;

void gate(const char *point, const char *name)
{
	const char *want = getenv("RECLAIM_GATE");
	size_t len = strlen(point);

	if (!want || strncmp(want, point, len) != 0 || want[len] != ':')
		return;
	if (strcmp(want + len + 1, name) != 0 || atomic_flag_test_and_set(&passed))
		return;
	/* raise, not kill: this very thread has to be the one that stops before it goes on. */
	(void)raise(SIGSTOP);
}
#endif
