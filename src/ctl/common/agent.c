/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

/* It asks polkit to be known; where polkit says nothing, there will be nothing to ask for. */
#define READY_MSEC 5000

/* In the child. --fallback: one of the session's own comes first. */
_Noreturn static void become(pid_t parent, int ready)
{
	char option[32];

	(void)snprintf(option, sizeof(option), "--notify-fd=%d", ready);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent && fcntl(ready, F_SETFD, 0) == 0)
		(void)execlp("pkttyagent", "pkttyagent", option, "--fallback", (char *)NULL);
	_exit(127);
}

pid_t agent_start(void)
{
	_cleanup_close_ int reading = -1, writing = -1;
	pid_t parent = getpid(), pid;
	struct pollfd p;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return 0;
	reading = ends[0];
	writing = ends[1];
	pid = fork();
	if (pid < 0)
		return 0;
	if (pid == 0)
		become(parent, writing);
	/* Its end is closed when it is ready, or has ended. */
	fd_closep(&writing);
	p = (struct pollfd){ .fd = reading, .events = POLLIN };
	while (poll(&p, 1, READY_MSEC) < 0 && errno == EINTR)
		;
	return pid;
}

void agent_end(pid_t agent)
{
	if (agent <= 0)
		return;
	(void)kill(agent, SIGTERM);
	(void)kill(agent, SIGCONT); /* it may wait for the terminal */
	while (waitpid(agent, NULL, 0) < 0 && errno == EINTR)
		;
}
