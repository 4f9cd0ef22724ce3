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
#define PERIOD_USEC USEC_PER_SEC
#define POKED_USEC (USEC_PER_SEC / 5)

/* What the process closes before it ends takes no longer, unless it hangs. */
#define END_MSEC 100

/* What it is told, a byte each. */
enum command { COMMAND_DISABLE, COMMAND_ENABLE, COMMAND_POKE };

/* What it tells when it begins, and when it has ended or failed. */
struct report {
	uint64_t started_usec; /* 0: it has ended */
	uint64_t took_usec;
	int error;
};

/* ---- the process -------------------------------------------------------------------------- */

/* After a fork from among threads: nothing but system calls. */
struct probe {
	int sock, dirfd, fd;
	size_t end; /* of the file: each record is appended, as a program that syncs a log does */
	bool enabled, poked;
	uint64_t began_usec; /* the last one */
};

/* Appends and syncs once. At 1 MiB the file starts again from nothing: writing over what is there
 * would leave its size alone, and with it the journal. Returns 0 or a negative errno. */
static int probe_sync(struct probe *s)
{
	static const char record[RECORD];

	if (s->end + RECORD > FILE_MOST) {
		if (ftruncate(s->fd, 0) < 0)
			return -errno;
		s->end = 0;
	}
	if (pwrite(s->fd, record, RECORD, (off_t)s->end) < 0)
		return -errno;
	s->end += RECORD;
	return fdatasync(s->fd) < 0 ? -errno : 0;
}

static bool report(const struct probe *s, const struct report *r)
{
	return send(s->sock, r, sizeof(*r), MSG_NOSIGNAL) == (ssize_t)sizeof(*r);
}

static bool probe_report(struct probe *s)
{
	struct report r = { .started_usec = now_usec() };

	s->began_usec = r.started_usec;
	s->poked = false;
	if (!report(s, &r))
		return false;
	r.error = probe_sync(s);
	r.took_usec = now_usec() - r.started_usec;
	r.started_usec = 0;
	return report(s, &r);
}

/* When the next one begins; UINT64_MAX: not at all. */
static uint64_t next_usec(const struct probe *s)
{
	if (!s->enabled)
		return UINT64_MAX;
	if (s->began_usec == 0)
		return 0;
	return s->began_usec + (s->poked ? POKED_USEC : PERIOD_USEC);
}

static int timeout_msec(const struct probe *s)
{
	uint64_t at = next_usec(s), now = now_usec();

	if (at == UINT64_MAX)
		return -1;
	return at <= now ? 0 : (int)((at - now + 999) / 1000);
}

/* Takes a command; false at the end of them. */
static bool listen_once(struct probe *s)
{
	char command;

	if (recv(s->sock, &command, 1, 0) != 1)
		return false;
	if (command == COMMAND_POKE) {
		s->poked = s->enabled;
	} else {
		s->enabled = command == COMMAND_ENABLE;
		s->poked &= s->enabled;
	}
	return true;
}

static void serve(struct probe *s)
{
	struct pollfd p = { .fd = s->sock, .events = POLLIN };
	struct report failed = { 0 };

	/* Making the file may take as long as anything else where a disk or a server hangs. */
	s->fd = openat(s->dirfd, ".", O_TMPFILE | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (s->fd < 0) {
		failed.error = -errno;
		(void)report(s, &failed);
		return;
	}
	for (;;) {
		int n = poll(&p, 1, timeout_msec(s));

		if (n < 0 && errno != EINTR)
			return;
		if (n > 0 && !listen_once(s))
			return;
		if (next_usec(s) <= now_usec() && !probe_report(s))
			return;
	}
}

_Noreturn static void probe_main(int sock, int dirfd)
{
	struct probe s = { .fd = -1 };

	(void)prctl(PR_SET_NAME, "reclaim-canary");
	/* All else that is ours would be held by it for as long as it hangs. */
	if (dup2(sock, STDIN_FILENO) < 0 || dup2(dirfd, STDOUT_FILENO) < 0 ||
	    close_range(STDERR_FILENO, ~0U, 0) < 0)
		_exit(EXIT_FAILURE);
	s.sock = STDIN_FILENO;
	s.dirfd = STDOUT_FILENO;
	serve(&s);
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
	pthread_mutex_t lock;
	int sock;
	pid_t pid;          /* 0: it has ended */
	bool enabled, told; /* as the process was told last */
	struct canary_sample sample;
};

int canary_new(struct canary **ret, int dirfd)
{
	_cleanup_close_ int copy = fcntl(dirfd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), its = -1;
	int pair[2], r;
	struct canary *c;

	if (copy < 0)
		return -errno;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		r = -errno;
		free(c);
		return r;
	}
	c->sock = pair[0];
	its = pair[1];
	(void)pthread_mutex_init(&c->lock, NULL);
	r = probe_start(its, copy, &c->pid);
	if (r < 0) {
		(void)canary_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

static bool tell(const struct canary *c, enum command command)
{
	char byte = (char)command;

	return send(c->sock, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* What could not be told is told again at the next occasion. Lock held. */
static void enabled_tell(struct canary *c)
{
	if (c->enabled != c->told && tell(c, c->enabled ? COMMAND_ENABLE : COMMAND_DISABLE))
		c->told = c->enabled;
}

void canary_enable(struct canary *c, bool on)
{
	(void)pthread_mutex_lock(&c->lock);
	c->enabled = on;
	enabled_tell(c);
	(void)pthread_mutex_unlock(&c->lock);
}

void canary_poke(struct canary *c)
{
	(void)pthread_mutex_lock(&c->lock);
	enabled_tell(c);
	if (c->told)
		(void)tell(c, COMMAND_POKE);
	(void)pthread_mutex_unlock(&c->lock);
}

static void take(struct canary_sample *s, const struct report *r)
{
	uint64_t started = s->started_usec;

	s->started_usec = r->started_usec;
	if (r->started_usec > 0)
		return;
	s->error = r->error;
	if (r->error < 0) {
		s->failures++;
		return;
	}
	s->count++;
	s->last_usec = r->took_usec;
	s->ended_usec = started + r->took_usec;
}

/* A process that was killed in mid-sync has none under way any more. One that ended by itself has
 * told why. Lock held. */
static void gone(struct canary *c)
{
	struct canary_sample *s = &c->sample;

	if (s->gone)
		return;
	s->gone = true;
	reap(c->pid);
	c->pid = 0;
	if (s->started_usec == 0 && s->error < 0)
		return;
	s->started_usec = 0;
	s->error = -EPIPE;
	s->failures++;
}

void canary_sample(struct canary *c, struct canary_sample *ret)
{
	struct report r;
	ssize_t n;

	(void)pthread_mutex_lock(&c->lock);
	/* That it left a command unread is told once, before what it had reported. */
	do {
		n = recv(c->sock, &r, sizeof(r), MSG_DONTWAIT);
		if (n == (ssize_t)sizeof(r))
			take(&c->sample, &r);
	} while (n == (ssize_t)sizeof(r) || (n < 0 && errno == ECONNRESET));
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		gone(c);
	enabled_tell(c);
	*ret = c->sample;
	(void)pthread_mutex_unlock(&c->lock);
}

struct canary *canary_free(struct canary *c)
{
	struct pollfd p = { .events = POLLIN };
	struct canary_sample s;

	if (!c)
		return NULL;
	/* So that the filesystem can be unmounted as soon as this returns, unless one hangs. */
	canary_sample(c, &s);
	(void)shutdown(c->sock, SHUT_WR);
	p.fd = c->sock;
	while (s.started_usec == 0 && poll(&p, 1, END_MSEC) > 0 &&
	       recv(c->sock, &(struct report){ 0 }, sizeof(struct report), 0) > 0)
		;
	fd_closep(&c->sock);
	reap(c->pid);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}
