/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gate.h"

#ifdef RECLAIM_TEST_GATES
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_flag passed = ATOMIC_FLAG_INIT;

/* What was sent to the process while it was stopped is taken by whichever thread does not block it,
 * as soon as that one runs: not before work goes on here, unless it is waited for. */
static void wait_taken(void)
{
	sigset_t pending;

	while (sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
		sigismember(&pending, SIGHUP) == 1))
		(void)usleep(100);
	/* From taken to handled. */
	(void)usleep(1000);
}

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
	wait_taken();
}
#endif
