/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * statter DIRECTORY USEC TAG - a program that asks for attributes at a fixed rate.
 *
 * Every USEC it looks for a name that is not in DIRECTORY and that no cache knows, as TAG and a
 * number make it a new one each time. At the end (SIGTERM) it prints what each took, in
 * microseconds. A program of its own because an interpreter would have its own waits measured, too.
 */
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#define MOST (1 << 20)
#define LATE 1000000000 /* so much later than planned it gives up what it is behind with */

static volatile sig_atomic_t over;

static void end(int signal)
{
	(void)signal;
	over = 1;
}

static int64_t now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void sleep_until(int64_t nsec)
{
	struct timespec ts = { nsec / 1000000000, nsec % 1000000000 };

	while (!over && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) != 0)
		;
}

int main(int argc, char **argv)
{
	static uint32_t took[MOST];
	int64_t due = now_nsec();
	unsigned n = 0;
	int dir;

	if (argc != 4)
		errx(2, "usage: statter DIRECTORY USEC TAG");
	dir = open(argv[1], O_RDONLY | O_DIRECTORY);
	if (dir < 0)
		err(1, "%s", argv[1]);
	prctl(PR_SET_TIMERSLACK, 1UL);
	signal(SIGTERM, end);
	for (; !over && n < MOST; n++) {
		int64_t began = now_nsec();
		struct stat st;
		char name[64];

		snprintf(name, sizeof(name), "absent-%.20s-%u", argv[3], n);
		(void)fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW);
		took[n] = (uint32_t)((now_nsec() - began) / 1000);
		/* At fixed times: a request that waits makes the next one late, and spares none. */
		due += atol(argv[2]) * INT64_C(1000);
		if (due < now_nsec() - LATE)
			due = now_nsec() - LATE;
		sleep_until(due);
	}
	for (unsigned i = 0; i < n; i++)
		printf("%u\n", took[i]);
	return 0;
}
