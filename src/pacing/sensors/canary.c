/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process of its own: a frozen filesystem holds a write, and with it the task that makes it. A
 * thread that waits there would keep the whole process, with its sockets and locks, from ending. */
#include "canary.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

#define RECORD KiB(4) /* appended each time */
#define FILE_MOST MiB(1)
#define AGAIN_USEC (USEC_PER_SEC / 5)

/* What the process closes before it ends takes no longer, unless it hangs. */
#define END_MSEC 100

/* What it tells: first that it has its file, then of each. */
struct report {
	uint64_t took_usec;
	int error; /* negative errno, or 0 */
};

/* ---- the process -------------------------------------------------------------------------- */

/* Appends and syncs once, as a program does that keeps a log. At 1 MiB the file starts again from
 * nothing: writing over what is there would leave its size alone, and with it the journal. Returns
 * 0 or a negative errno. */
static int probe_sync(int fd, off_t *end)
{
	static const char record[RECORD];

	if (*end + (off_t)RECORD > (off_t)FILE_MOST) {
		if (ftruncate(fd, 0) < 0)
			return -errno;
		*end = 0;
	}
	if (pwrite(fd, record, RECORD, *end) < 0)
		return -errno;
	*end += RECORD;
	return fdatasync(fd) < 0 ? -errno : 0;
}

/* After a fork from among threads: nothing but system calls. */
_Noreturn static void probe_main(int sock, int dirfd)
{
	struct report r = { 0 };
	off_t end = 0;
	char request;
	int fd;

	(void)prctl(PR_SET_NAME, "reclaim-canary");
	/* All else that is ours would be held by it for as long as it hangs. */
	if (dup2(sock, STDIN_FILENO) < 0 || dup2(dirfd, STDOUT_FILENO) < 0 ||
	    close_range(STDERR_FILENO, ~0U, 0) < 0)
		_exit(EXIT_FAILURE);
	/* Making the file may take as long as anything else where a disk or a server hangs. */
	fd = openat(STDOUT_FILENO, ".", O_TMPFILE | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 || send(STDIN_FILENO, &r, sizeof(r), MSG_NOSIGNAL) < 0)
		_exit(EXIT_FAILURE);
	while (recv(STDIN_FILENO, &request, 1, 0) == 1) {
		uint64_t began = now_usec();

		r.error = probe_sync(fd, &end);
		r.took_usec = now_usec() - began;
		if (send(STDIN_FILENO, &r, sizeof(r), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(EXIT_SUCCESS);
}

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

static int probe_start(int sock, int dirfd, pid_t *ret)
{
	sigset_t all, before;
	pid_t pid;

	reap(0);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		probe_main(sock, dirfd);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		return -errno;
	*ret = pid;
	return 0;
}

/* ---- its owner ---------------------------------------------------------------------------- */

struct canary {
	int sock;
	pid_t pid; /* 0: it has ended */
	uint64_t asked_usec;
	struct canary_sample sample;
};

int canary_new(struct canary **ret, int dirfd)
{
	_cleanup_close_ int copy = fcntl(dirfd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), its = -1;
	struct canary *c;
	int pair[2], r;

	if (copy < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	its = pair[1];
	c = calloc(1, sizeof(*c));
	r = c ? probe_start(its, copy, &c->pid) : -ENOMEM;
	if (r < 0) {
		fd_closep(&pair[0]);
		free(c);
		return r;
	}
	c->sock = pair[0];
	*ret = c;
	return 0;
}

void canary_ask(struct canary *c)
{
	uint64_t now = now_usec();

	if (!c->sample.ready || c->sample.busy || now - c->asked_usec < AGAIN_USEC)
		return;
	c->sample.busy = send(c->sock, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
	c->asked_usec = now;
}

void canary_sample(struct canary *c, struct canary_sample *ret)
{
	struct canary_sample *s = &c->sample;
	struct report r;
	ssize_t n = s->gone ? -1 : recv(c->sock, &r, sizeof(r), MSG_DONTWAIT);

	if (s->gone) {
		;
	} else if (n == (ssize_t)sizeof(r) && !s->ready) {
		s->ready = true;
	} else if (n == (ssize_t)sizeof(r)) {
		s->busy = false;
		s->count += r.error == 0;
		s->last_usec = r.error == 0 ? r.took_usec : s->last_usec;
	} else if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
		s->gone = true;
		s->busy = false;
		reap(c->pid);
		c->pid = 0;
	}
	*ret = *s;
}

struct canary *canary_free(struct canary *c)
{
	struct canary_sample s;

	if (!c)
		return NULL;
	/* So that the filesystem can be unmounted as soon as this returns, unless one hangs. */
	canary_sample(c, &s);
	(void)shutdown(c->sock, SHUT_WR);
	while (!s.busy && poll(&(struct pollfd){ c->sock, POLLIN, 0 }, 1, END_MSEC) > 0 &&
	       recv(c->sock, &(struct report){ 0 }, sizeof(struct report), MSG_DONTWAIT) > 0)
		;
	fd_closep(&c->sock);
	reap(c->pid);
	free(c);
	return NULL;
}
