/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The caller makes a child without a signal of its end, which shares the memory and for which it
 * waits; that one makes a grandchild, the program, and waits for it. Only the child is told
 * of its end, and that is the point: the caller's own waiting and SIGCHLD see nothing. */
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#define STACK_SIZE ((size_t)32 << 10)

struct running {
	const struct helper *h;
	unsigned char *stacks; /* two, which grow down */
};

/* In the grandchild, whose descriptors are its own. */
static int descriptors_leave(int fd)
{
	if ((fd > 3 && close_range(3, (unsigned)fd - 1, 0) < 0) ||
	    close_range((unsigned)fd + 1, ~0U, 0) < 0 || close_range(0, 2, 0) < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		if (open("/dev/null", O_RDWR) != i)
			return -1;
	return fcntl(fd, F_SETFD, 0);
}

static int grandchild(void *userdata)
{
	const struct running *run = userdata;
	const struct helper *h = run->h;

	if (descriptors_leave(h->fd) == 0)
		(void)execve(h->path, h->argv, h->envp);
	_exit(127);
}

static void end(int pidfd, unsigned options)
{
	siginfo_t info;

	while (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, (int)(WEXITED | options)) < 0 &&
	       errno == EINTR)
		;
}

/* All signals are blocked; the caller stands still until this has ended. */
static int child(void *userdata)
{
	static const int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD;
	struct running *run = userdata;
	struct pollfd p = { .events = POLLIN };

	if (clone(grandchild, run->stacks + 2 * STACK_SIZE, flags, run, &p.fd) < 0)
		_exit(1);
	/* By now it runs its program, or has ended. */
	if (poll(&p, 1, (int)(run->h->timeout_usec / 1000)) <= 0)
		(void)syscall(SYS_pidfd_send_signal, p.fd, SIGKILL, NULL, 0);
	/* Else it would go to the process that looks after orphans, which may be the caller. */
	end(p.fd, 0);
	_exit(0);
}

void helper_run(const struct helper *h)
{
	static const int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD;
	struct running run = { .h = h };
	sigset_t all, before;
	void *stacks = mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	int pidfd = -1;

	if (stacks == MAP_FAILED)
		return;
	run.stacks = stacks;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &before);
	if (clone(child, run.stacks + STACK_SIZE, flags, &run, &pidfd) >= 0) {
		end(pidfd, __WALL);
		(void)close(pidfd);
	}
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	(void)munmap(stacks, 2 * STACK_SIZE);
}
