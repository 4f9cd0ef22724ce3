/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* unlinker HOW PATH...: unlinks from where nothing may be taken for granted, with the shim loaded.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;
static volatile sig_atomic_t unlinked = -2, child_signals;

static void on_alarm(int number)
{
	(void)number;
	unlinked = unlink(path);
}

static void on_child(int number)
{
	(void)number;
	child_signals = child_signals + 1;
}

/* In a handler, which interrupts the allocator, sooner or later. */
static int in_handler(void)
{
	const struct itimerval soon = { .it_value = { .tv_usec = 2000 } };
	char *blocks[64] = { NULL };

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &soon, NULL);
	for (unsigned i = 0; unlinked == -2; i++) {
		char **block = &blocks[i * 7 % 64];

		free(*block);
		*block = malloc(i * 997 % 5000 + 1);
		if (*block)
			(*block)[0] = 'x';
	}
	for (unsigned i = 0; i < 64; i++)
		free(blocks[i]);
	return unlinked;
}

/* With a child of its own that it waits for, and a handler that counts ends. */
static int beside_child(void)
{
	int pipes[2], status, r;
	pid_t pid;
	char c;

	if (pipe(pipes) < 0)
		return -1;
	signal(SIGCHLD, on_child);
	pid = fork();
	if (pid == 0) {
		close(pipes[1]);
		_exit(read(pipes[0], &c, 1) == 0 ? 7 : 8);
	}
	r = unlink(path);
	printf("ends: %d, waiting: %d\n", (int)child_signals, waitpid(-1, &status, WNOHANG));
	close(pipes[1]);
	while (waitpid(-1, &status, 0) < 0 && errno == EINTR)
		;
	printf("status: %d\n", WEXITSTATUS(status));
	printf("then: %d\n", waitpid(-1, &status, __WALL));
	return r;
}

/* What it says of each path. */
static int errors(char **paths, int n)
{
	for (int i = 0; i < n; i++)
		printf("%s\n", unlink(paths[i]) < 0 ? strerrorname_np(errno) : "gone");
	return 0;
}

/* With ends that are thrown away. */
static int ignoring(void)
{
	signal(SIGCHLD, SIG_IGN);
	return unlink(path);
}

static int in_vfork(void)
{
	static volatile int r;
	int status;
	pid_t pid = vfork();

	if (pid == 0) {
		r = unlink(path);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return r;
}

static void *in_thread(void *p)
{
	return unlink(p) == 0 ? p : NULL;
}

static int in_threads(char **paths, int n)
{
	pthread_t ids[16];
	int bad = 0;

	for (int i = 0; i < n; i++)
		if (pthread_create(&ids[i], NULL, in_thread, paths[i]) != 0)
			return -1;
	for (int i = 0; i < n; i++) {
		void *result;

		pthread_join(ids[i], &result);
		bad += !result;
	}
	return bad ? -1 : 0;
}

/* With nothing at the standard descriptors, and all signals let through as before. */
static int bare(void)
{
	sigset_t before, after;
	int r;

	close(0);
	close(2);
	sigprocmask(SIG_SETMASK, NULL, &before);
	errno = ENOTTY;
	r = unlink(path);
	sigprocmask(SIG_SETMASK, NULL, &after);
	printf("errno: %s, mask: %d\n", strerrorname_np(errno), memcmp(&before, &after, 8));
	return r;
}

/* A program with more rights than its caller, which gives them up for good. */
static int dropped(void)
{
	if (setresgid(getgid(), getgid(), getgid()) < 0 ||
	    setresuid(getuid(), getuid(), getuid()) < 0)
		return -1;
	return unlink(path);
}

static _Atomic int removed, given_up;

static void *in_thread_of_root(void *number)
{
	char name[64];

	for (int i = 0; i < 16 && !given_up; i++) {
		snprintf(name, sizeof(name), "before.%d.%d", (int)(intptr_t)number, i);
		if (unlink(name) == 0)
			removed++;
	}
	while (!given_up)
		usleep(1000);
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "after.%d.%d", (int)(intptr_t)number, i);
		if (unlink(name) < 0)
			return NULL;
	}
	return number;
}

/* Threads of root, which becomes this user while they are in the midst of it. */
static int giving_up(void)
{
	uid_t uid = (uid_t)atoi(path);
	pthread_t ids[4];
	int bad = 0;

	for (intptr_t i = 0; i < 4; i++)
		if (pthread_create(&ids[i], NULL, in_thread_of_root, (void *)(i + 1)) != 0)
			return -1;
	while (removed < 6)
		usleep(1000);
	if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		return -1;
	given_up = 1;
	for (int i = 0; i < 4; i++) {
		void *result;

		pthread_join(ids[i], &result);
		bad += !result;
	}
	return bad ? -1 : 0;
}

static void *in_thread_of_a_user(void *uid)
{
	uid_t id = (uid_t)(intptr_t)uid;

	/* The C library would change all threads. */
	if (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0)
		return NULL;
	return unlink("by-user") == 0 ? uid : NULL;
}

/* A server that is this user in one thread, and root in another. */
static int one_thread(void)
{
	pthread_t id;
	void *result;

	if (pthread_create(&id, NULL, in_thread_of_a_user, (void *)(intptr_t)atoi(path)) != 0)
		return -1;
	pthread_join(id, &result);
	return result ? unlink("by-root") : -1;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[1] : "";
	int r = -1;

	path = argv[argc - 1];
	if (strcmp(how, "handler") == 0)
		r = in_handler();
	else if (strcmp(how, "child") == 0)
		r = beside_child();
	else if (strcmp(how, "ignoring") == 0)
		r = ignoring();
	else if (strcmp(how, "vfork") == 0)
		r = in_vfork();
	else if (strcmp(how, "threads") == 0 && argc <= 18)
		r = in_threads(argv + 2, argc - 2);
	else if (strcmp(how, "errors") == 0)
		r = errors(argv + 2, argc - 2);
	else if (strcmp(how, "bare") == 0)
		r = bare();
	else if (strcmp(how, "dropped") == 0)
		r = dropped();
	else if (strcmp(how, "giving-up") == 0)
		r = giving_up();
	else if (strcmp(how, "one-thread") == 0)
		r = one_thread();
	else if (strcmp(how, "remove") == 0)
		r = remove(path);
	printf("%s: %d\n", how, r);
	return r != 0;
}
