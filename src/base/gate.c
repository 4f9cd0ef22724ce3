/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gate.h"

#ifdef RECLAIM_TEST_GATES
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_uint passed; /* a bit for each of the gates */

#define TAKEN_USEC 100
#define TAKEN_MOST 10000

/* What was sent to the process while it was stopped is taken by whichever thread does not block it,
 * as soon as that one runs: not before work goes on here, unless it is waited for. */
static void wait_taken(void)
{
	sigset_t pending;

	/* Where every thread blocks it, it stays. */
	for (unsigned i = 0;
	     i < TAKEN_MOST && sigpending(&pending) == 0 &&
	     (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
	      sigismember(&pending, SIGHUP) == 1);
	     i++)
		(void)usleep(TAKEN_USEC);
	/* From taken to handled. */
	(void)usleep(1000);
}

/* Is it this one, of one or several between commas? */
static bool is_at(const char *want, size_t want_len, const char *point, const char *name)
{
	size_t len = strlen(point);

	return want_len == len + 1 + strlen(name) && strncmp(want, point, len) == 0 &&
	       want[len] == ':' && strncmp(want + len + 1, name, want_len - len - 1) == 0;
}

int64_t gate_clock_usec(void)
{
	const char *path = getenv("RECLAIM_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char buf[32] = "";

	if (fd < 0)
		return 0;
	if (read(fd, buf, sizeof(buf) - 1) < 0)
		buf[0] = '\0';
	(void)close(fd);
	return strtoll(buf, NULL, 10);
}

static uint64_t number(const char *variable)
{
	const char *text = getenv(variable);

	return text ? strtoull(text, NULL, 10) : 0;
}

uint64_t gate_lease_msec(void)
{
	return number("RECLAIM_LEASE");
}

void gate(const char *point, const char *name)
{
	const char *want = getenv("RECLAIM_GATE");
	unsigned bit = 1;
	size_t len = 0;

	for (; want && *want; want += len + (want[len] == ','), bit <<= 1) {
		len = strcspn(want, ",");
		if (is_at(want, len, point, name))
			break;
	}
	if (!want || !*want || atomic_fetch_or(&passed, bit) & bit)
		return;
	/* raise, not kill: this very thread has to be the one that stops before it goes on. */
	(void)raise(SIGSTOP);
	wait_taken();
}
#endif
