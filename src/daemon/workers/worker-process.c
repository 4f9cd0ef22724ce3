/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/spawn.h"
#include "wire/protocol.h"
#include "worker-handle.h"
#include "worker-process.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* What a worker that is not wanted any more may take to stop at the next entry. */
#define PATIENCE USEC_PER_SEC

/* Only this process reaps it, so that the pid stays its own until a descriptor stands for it. */
static int pidfd_open_or_kill(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0), r = -errno;

	if (fd >= 0)
		return fd;
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return r;
}

int worker_program_pin(const char *path, int *ret_fd, char **ret_program)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC), high = -1;

	if (fd < 0)
		return -errno;
	/* Not where the worker's socket will be. */
	high = fcntl(fd, F_DUPFD_CLOEXEC, PROTOCOL_FD + 1);
	if (high < 0)
		return -errno;
	if (asprintf(ret_program, "/proc/self/fd/%d", high) < 0)
		return -ENOMEM;
	*ret_fd = fd_take(&high);
	return 0;
}

int process_start(const char *program, int sock, int *ret_pidfd)
{
	_cleanup_close_ int own = sock;
#ifdef RECLAIM_TEST_GATES
	char *const *env = environ;
#else
	char *env[DEBUG_ENVIRONMENT];
#endif
	pid_t pid;
	int r;

#ifndef RECLAIM_TEST_GATES
	debug_environment(env);
#endif
	/* In reclaimd's process group: a terminal's signals reach both. In one of its own a stopped
	 * worker, and what it started, would get SIGHUP from the kernel when the parent ends. One
	 * that hangs in a filesystem would not, and tests could not tell what the death pipe does.
	 */
	r = spawn_program(program, "reclaim-worker", env, &own, 1, /* own_group= */ false, &pid);
	if (r >= 0)
		r = pidfd_open_or_kill(pid);
	if (r < 0)
		return r;
	*ret_pidfd = r;
	return 0;
}

bool process_ended(int pidfd, char *buf, size_t len)
{
	siginfo_t si = { 0 };

	if (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &si, WEXITED | WNOHANG) < 0) {
		(void)snprintf(buf, len, "is gone: %s", strerror(errno));
		return true;
	}
	if (si.si_pid == 0)
		return false;
	if (si.si_code == CLD_EXITED)
		(void)snprintf(buf, len, "ended with status %d", si.si_status);
	else
		(void)snprintf(buf, len, "was killed by signal %d (%s)", si.si_status,
			       strsignal(si.si_status));
	return true;
}

bool process_stopped(int pidfd)
{
	siginfo_t si = { 0 };

	return waitid((idtype_t)P_PIDFD, (id_t)pidfd, &si, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	       si.si_pid != 0;
}

/* A process that is to end, or has ended and is not reaped yet. */
struct reaping {
	int pidfd, death_pipe;
	struct process_watch watch;
	sd_event_source *end, *patience;
};

/* By the parent-death pipe, which takes no right to send signals to another user's process; by a
 * signal, in case the process has not taken its end yet. */
static void process_kill(int pidfd, int *death_pipe)
{
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	fd_closep(death_pipe);
}

static void watch_tell(const struct process_watch *w)
{
	if (w->reaped)
		w->reaped(w->userdata);
}

static void reaping_free(void *userdata)
{
	struct reaping *f = userdata;

	fd_closep(&f->death_pipe);
	fd_closep(&f->pidfd);
	watch_tell(&f->watch);
	free(f);
}

/* The sources belong to the loop: it frees them, should it end before the process does. */
static void source_end(sd_event_source *s)
{
	if (s)
		(void)sd_event_source_set_floating(s, false);
}

static int on_end(sd_event_source *s, int fd, uint32_t events, void *userdata)
{
	struct reaping *f = userdata;
	char how[64];

	(void)events;
	if (!process_ended(fd, how, sizeof(how)))
		return 0;
	source_end(f->patience);
	source_end(s);
	return 0;
}

static int on_patience(sd_event_source *s, uint64_t usec, void *userdata)
{
	struct reaping *f = userdata;

	(void)usec;
	process_kill(f->pidfd, &f->death_pipe);
	f->patience = NULL;
	source_end(s);
	return 0;
}

static sd_event_source *float_away(sd_event_source *s)
{
	(void)sd_event_source_set_floating(s, true);
	/* The loop's is the only reference now. */
	return sd_event_source_unref(s), s;
}

void process_reap(sd_event *event, int pidfd, int death_pipe, bool now,
		  const struct process_watch *w)
{
	struct reaping *f = pidfd >= 0 ? calloc(1, sizeof(*f)) : NULL;
	sd_event_source *s = NULL;

	if (f)
		*f = (struct reaping){ .pidfd = pidfd, .death_pipe = death_pipe, .watch = *w };
	/* Out of memory, it cannot be waited for: it becomes init's when we end. */
	if (!f || sd_event_add_io(event, &s, pidfd, EPOLLIN, on_end, f) < 0) {
		process_kill(pidfd, &death_pipe);
		fd_closep(&pidfd);
		free(f);
		watch_tell(w);
		return;
	}
	(void)sd_event_source_set_destroy_callback(s, reaping_free);
	f->end = float_away(s);
	if (now || sd_event_add_time_relative(event, &f->patience, CLOCK_MONOTONIC, PATIENCE, 0,
					      on_patience, f) < 0)
		process_kill(pidfd, &f->death_pipe);
	else
		(void)float_away(f->patience);
}

_Static_assert(SPAWN_FD == PROTOCOL_FD, "where a worker finds its socket");
