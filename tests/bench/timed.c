/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * timed [--freeze] REPORT MOUNTPOINT COMMAND [ARGUMENT...] - run a command and say what it cost.
 *
 * A program of its own because the kernel counts the memory of the process that forked towards the
 * peak of the child: measured from Python, nothing ever needs less than an interpreter.
 *
 * Writes one line to REPORT: elapsed, settled (both nanoseconds from the start), user, system (both
 * microseconds), peak resident memory (KiB), exit status (128 + n for a signal).
 *
 * "settled" is when the filesystem has done what the command left to it. A sync is enough for that
 * except on XFS, whose inodes are inactivated by workers that a sync does not wait for but freezing
 * does: hence --freeze.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct cost {
	uint64_t elapsed_nsec;
	uint64_t settled_nsec;
	struct rusage usage;
	int status;
};

static uint64_t now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static int settle(int mount_fd, bool freeze)
{
	if (syncfs(mount_fd) < 0)
		return -errno;
	if (!freeze)
		return 0;
	if (ioctl(mount_fd, FIFREEZE, 0) < 0)
		return -errno;
	if (ioctl(mount_fd, FITHAW, 0) < 0)
		return -errno;
	return 0;
}

/* When the benchmark is killed, no deletion may go on in a mount that then stays busy. */
static _Noreturn void run_child(char **command)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(command[0], command);
	fprintf(stderr, "timed: %s: %s\n", command[0], strerror(errno));
	_exit(127);
}

static int run(char **command, int mount_fd, bool freeze, struct cost *ret)
{
	struct cost cost = { 0 };
	uint64_t start = now_nsec();
	pid_t pid;
	int status, r;

	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		run_child(command);
	if (wait4(pid, &status, 0, &cost.usage) < 0)
		return -errno;
	cost.elapsed_nsec = now_nsec() - start;
	r = settle(mount_fd, freeze);
	if (r < 0)
		return r;
	cost.settled_nsec = now_nsec() - start;
	cost.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	*ret = cost;
	return 0;
}

static uint64_t usec(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * UINT64_C(1000000) + (uint64_t)tv.tv_usec;
}

static int write_report(const char *path, const struct cost *cost)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return -errno;
	fprintf(f, "%llu %llu %llu %llu %ld %d\n", (unsigned long long)cost->elapsed_nsec,
		(unsigned long long)cost->settled_nsec,
		(unsigned long long)usec(cost->usage.ru_utime),
		(unsigned long long)usec(cost->usage.ru_stime), cost->usage.ru_maxrss,
		cost->status);
	return fclose(f) < 0 ? -errno : 0;
}

int main(int argc, char **argv)
{
	bool freeze = argc > 1 && strcmp(argv[1], "--freeze") == 0;
	char **arg = argv + 1 + freeze;
	struct cost cost = { 0 };
	int mount_fd, r;

	if (argc - freeze < 4) {
		fprintf(stderr,
			"usage: timed [--freeze] REPORT MOUNTPOINT COMMAND [ARGUMENT...]\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	mount_fd = open(arg[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount_fd < 0) {
		fprintf(stderr, "timed: %s: %s\n", arg[1], strerror(errno));
		return 1;
	}
	r = run(arg + 2, mount_fd, freeze, &cost);
	if (r >= 0)
		r = write_report(arg[0], &cost);
	if (r < 0) {
		fprintf(stderr, "timed: %s\n", strerror(-r));
		return 1;
	}
	return 0;
}
