/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "canary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/side-process.h"

#define RECORD KiB(4) /* appended each time */
#define FILE_MOST MiB(1)
#define AGAIN_USEC (USEC_PER_SEC / 5)

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
static void probe_main(void *userdata)
{
	struct report r = { 0 };
	off_t end = 0;
	char request;
	int fd;

	(void)userdata;
	/* Making the file may take as long as anything else where a disk or a server hangs. */
	fd = openat(STDOUT_FILENO, ".", O_TMPFILE | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 || send(STDIN_FILENO, &r, sizeof(r), MSG_NOSIGNAL) < 0)
		return;
	while (recv(STDIN_FILENO, &request, 1, 0) == 1) {
		uint64_t began = now_usec();

		r.error = probe_sync(fd, &end);
		r.took_usec = now_usec() - began;
		if (send(STDIN_FILENO, &r, sizeof(r), MSG_NOSIGNAL) < 0)
			break;
	}
}

/* ---- its owner ---------------------------------------------------------------------------- */

struct canary {
	struct side_process process;
	uint64_t asked_usec;
	struct canary_sample sample;
};

int canary_new(struct canary **ret, int dirfd)
{
	struct canary *c = dirfd < 0 ? NULL : calloc(1, sizeof(*c));
	int r;

	if (!c)
		return dirfd < 0 ? -EBADF : -ENOMEM;
	r = side_process_start(&c->process, "reclaim-canary", dirfd, probe_main, NULL);
	if (r < 0) {
		free(c);
		return r;
	}
	*ret = c;
	return 0;
}

void canary_ask(struct canary *c)
{
	uint64_t now = now_usec();

	if (!c->sample.ready || c->sample.busy || now - c->asked_usec < AGAIN_USEC)
		return;
	c->sample.busy = send(c->process.sock, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
	c->asked_usec = now;
}

void canary_sample(struct canary *c, struct canary_sample *ret)
{
	struct canary_sample *s = &c->sample;
	struct report r;
	ssize_t n = s->gone ? -1 : recv(c->process.sock, &r, sizeof(r), MSG_DONTWAIT);

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
		side_process_reap(&c->process);
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
	side_process_end(&c->process, !s.busy);
	free(c);
	return NULL;
}
