/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "side-process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fd.h"
#include "macros.h"

/* What the process closes before it ends takes no longer, unless it hangs. */
#define END_MSEC 100

/* Those that had not ended when they were let go of. Each hangs, so there are few. */
static struct {
	pthread_mutex_t lock;
	pid_t pids[64];
	size_t n;
} left = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Reaps those that have ended meanwhile, and keeps this one (0: none) in mind if it has not. */
static void reap(pid_t pid)
{
	size_t n = 0;

	(void)pthread_mutex_lock(&left.lock);
	for (size_t i = 0; i < left.n; i++)
		if (waitpid(left.pids[i], NULL, WNOHANG) == 0)
			left.pids[n++] = left.pids[i];
	left.n = n;
	if (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 && n < ELEMENTSOF(left.pids))
		left.pids[left.n++] = pid;
	(void)pthread_mutex_unlock(&left.lock);
}

_Noreturn static void child(const char *name, int sock, int fd, void (*run)(void *), void *arg)
{
	(void)prctl(PR_SET_NAME, name);
	/* All else that is ours would be held by it for as long as it hangs. */
	if (dup2(sock, STDIN_FILENO) < 0 || (fd >= 0 && dup2(fd, STDOUT_FILENO) < 0) ||
	    close_range(fd >= 0 ? STDERR_FILENO : STDOUT_FILENO, ~0U, 0) < 0)
		_exit(EXIT_FAILURE);
	run(arg);
	_exit(EXIT_SUCCESS);
}

int side_process_start(struct side_process *p, const char *name, int fd, void (*run)(void *arg),
		       void *arg)
{
	/* Above standard error, which is closed in between. */
	_cleanup_close_ int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
	_cleanup_close_ int its = -1;
	sigset_t all, before;
	int pair[2];
	pid_t pid;

	*p = (struct side_process){ -1, 0 };
	if ((fd >= 0 && copy < 0) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	its = pair[1];
	reap(0);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		child(name, its, copy, run, arg);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid < 0) {
		fd_closep(&pair[0]);
		return -errno;
	}
	*p = (struct side_process){ pair[0], pid };
	return 0;
}

void side_process_reap(struct side_process *p)
{
	reap(p->pid);
	p->pid = 0;
}

void side_process_end(struct side_process *p, bool idle)
{
	char answer[64];

	(void)shutdown(p->sock, SHUT_WR);
	while (idle && poll(&(struct pollfd){ p->sock, POLLIN, 0 }, 1, END_MSEC) > 0 &&
	       recv(p->sock, answer, sizeof(answer), MSG_DONTWAIT) > 0)
		;
	fd_closep(&p->sock);
	side_process_reap(p);
}
