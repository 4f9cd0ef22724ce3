/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/spawn.h"
#include "support.h"

#define NAME "spawned"
#define AS_WANTED "/dev/null /dev/null second 0 more, 1 variable A=b, %s group, no signals"

/* ---- the program: it tells what it has through its first descriptor ------------------------- */

static const char *stream(int fd)
{
	static char targets[2][64];
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, targets[fd], sizeof(targets[fd]) - 1) > 0 ? targets[fd] : "none";
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* How many other descriptors lead to where one of the given ones does. */
static int more(void)
{
	struct stat given[2], st;
	int n = 0;

	for (int i = 0; i < 2; i++)
		if (fstat(SPAWN_FD + i, &given[i]) < 0)
			return -1;
	for (int fd = 0; fd < 1024; fd++)
		n += fd != SPAWN_FD && fd != SPAWN_FD + 1 && fstat(fd, &st) == 0 &&
		     (is_same(&st, &given[0]) || is_same(&st, &given[1]));
	return n;
}

static bool has_signals(void)
{
	struct sigaction sa;
	sigset_t blocked;

	return sigprocmask(SIG_BLOCK, NULL, &blocked) < 0 || sigismember(&blocked, SIGUSR1) != 0 ||
	       sigaction(SIGPIPE, NULL, &sa) < 0 || sa.sa_handler != SIG_DFL;
}

static int spawned(void)
{
	char content[16] = "", text[256];
	int n = 0;

	while (environ[n])
		n++;
	(void)!pread(SPAWN_FD + 1, content, sizeof(content) - 1, 0);
	(void)snprintf(text, sizeof(text), "%s %s %s %d more, %d variable %s, %s, %s", stream(0),
		       stream(1), content, more(), n, n > 0 ? environ[0] : "",
		       getpgrp() == getpid() ? "own group" : "same group",
		       has_signals() ? "signals" : "no signals");
	return write(SPAWN_FD, text, strlen(text)) < 0;
}

/* ---- the tests ------------------------------------------------------------------------------ */

/* Runs the program with these descriptors, which in this process are 3 and 4 already, in this order
 * or the other. */
static int run(int first, int second, bool crossed, bool own_group)
{
	const int given[] = { SPAWN_FD + crossed, SPAWN_FD + !crossed };
	char *const env[] = { (char *)"A=b", NULL };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t blocked;
	int status;
	pid_t pid;

	first = fcntl(first, F_DUPFD_CLOEXEC, SPAWN_FD + 2);
	second = fcntl(second, F_DUPFD_CLOEXEC, SPAWN_FD + 2);
	SUCCEEDS(dup3(first, given[0], O_CLOEXEC));
	SUCCEEDS(dup3(second, given[1], O_CLOEXEC));
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGUSR1);
	SUCCEEDS(sigprocmask(SIG_BLOCK, &blocked, NULL));
	SUCCEEDS(sigaction(SIGPIPE, &ignore, NULL));
	SUCCEEDS(spawn_program("/proc/self/exe", NAME, env, given, 2, own_group, &pid));
	SUCCEEDS(waitpid(pid, &status, 0));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : __LINE__;
}

static void check_run(bool crossed, bool own_group)
{
	int file = memfd_create("second", MFD_CLOEXEC), ends[2], status;
	char text[256], wanted[256];
	ssize_t n;
	pid_t pid;

	ck_assert_int_eq(write(file, "second", 6), 6);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(run(ends[1], file, crossed, own_group));
	(void)close(ends[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	n = read(ends[0], text, sizeof(text) - 1);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	(void)snprintf(wanted, sizeof(wanted), AS_WANTED, own_group ? "own" : "same");
	ck_assert_str_eq(text, wanted);
	(void)close(ends[0]);
	(void)close(file);
}

START_TEST(spawn_gives_what_is_wanted_and_no_more)
{
	check_run(false, false);
	check_run(true, true);
}
END_TEST

START_TEST(spawn_tells_why_not)
{
	char *const env[] = { NULL };
	pid_t pid = 0;

	ck_assert_int_eq(spawn_program("/absent", NAME, env, NULL, 0, false, &pid), -ENOENT);
	ck_assert_int_eq(
		spawn_program("/proc/self/exe", NAME, env, (int[]){ 0, -1 }, 2, false, &pid),
		-EBADF);
	ck_assert_int_eq(pid, 0);
}
END_TEST

int main(int argc, char **argv)
{
	const TTest *tests[] = { spawn_gives_what_is_wanted_and_no_more, spawn_tells_why_not };

	if (argc == 1 && strcmp(argv[0], NAME) == 0)
		_exit(spawned());
	return run_case("spawn", tests, ELEMENTSOF(tests));
}
