/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "canary.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "util/fd.h"
#include "util/thread.h"

#define PIECE KiB(4)
#define FILE_MOST MiB(1)
#define PERIOD_USEC USEC_PER_SEC
#define POKED_USEC (USEC_PER_SEC / 5)

/* Shared by its owner and its thread; the last of the two to let go frees it. */
struct canary {
	pthread_mutex_t lock; /* for all below; while one is under way, fd and end are the
			       * thread's */
	pthread_cond_t changed;
	unsigned refs;
	bool enabled, poked, stopping;
	uint64_t began_usec; /* the last one, under way or not */
	struct canary_sample sample;
	int dirfd; /* the thread's, until it has made the file */
	int fd;
	size_t end; /* of the file: each piece is appended, as one that syncs a log does */
};

static void destroy(struct canary *c)
{
	fd_closep(&c->dirfd);
	fd_closep(&c->fd);
	(void)pthread_cond_destroy(&c->changed);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Gives up one reference, and the lock with it. */
static void unlock_unref(struct canary *c)
{
	bool last = --c->refs == 0;

	(void)pthread_mutex_unlock(&c->lock);
	if (last)
		destroy(c);
}

/* Appends and syncs once. At 1 MiB the file starts again from nothing: writing over what is there
 * would leave its size alone, and with it the journal. Returns 0 or a negative errno. */
static int sing(struct canary *c)
{
	static const char piece[PIECE];

	if (c->end + PIECE > FILE_MOST) {
		if (ftruncate(c->fd, 0) < 0)
			return -errno;
		c->end = 0;
	}
	if (pwrite(c->fd, piece, PIECE, (off_t)c->end) < 0)
		return -errno;
	c->end += PIECE;
	return fdatasync(c->fd) < 0 ? -errno : 0;
}

/* When the next one is due; UINT64_MAX: not at all. */
static uint64_t due(const struct canary *c)
{
	if (!c->enabled)
		return UINT64_MAX;
	if (c->began_usec == 0)
		return 0;
	return c->began_usec + (c->poked ? POKED_USEC : PERIOD_USEC);
}

/* Waits until the next one is due. Called with the lock held. */
static void wait_until_due(struct canary *c)
{
	while (!c->stopping) {
		uint64_t at = due(c);
		struct timespec ts = { .tv_sec = (time_t)(at / USEC_PER_SEC),
				       .tv_nsec = (long)(at % USEC_PER_SEC) * 1000 };

		if (at <= now_usec())
			return;
		if (at == UINT64_MAX)
			(void)pthread_cond_wait(&c->changed, &c->lock);
		else
			(void)pthread_cond_timedwait(&c->changed, &c->lock, &ts);
	}
}

/* Does one and notes what it took. Called with the lock held, which is let go meanwhile. */
static void sing_once(struct canary *c)
{
	uint64_t began = now_usec(), ended;
	int r;

	c->began_usec = began;
	c->sample.started_usec = began;
	c->poked = false;
	(void)pthread_mutex_unlock(&c->lock);
	r = sing(c);
	ended = now_usec();
	(void)pthread_mutex_lock(&c->lock);
	c->sample.started_usec = 0;
	c->sample.error = r;
	if (r < 0) {
		c->sample.failures++;
		return;
	}
	c->sample.count++;
	c->sample.last_usec = ended - began;
	c->sample.ended_usec = ended;
}

static int nameless_open(int dirfd)
{
	int fd = openat(dirfd, ".", O_TMPFILE | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

/* Making the file may take as long as anything else where a disk or a server hangs. Called with the
 * lock held, which is let go meanwhile. Returns whether there is a file. */
static bool prepare(struct canary *c)
{
	int fd;

	(void)pthread_mutex_unlock(&c->lock);
	fd = nameless_open(c->dirfd);
	fd_closep(&c->dirfd);
	(void)pthread_mutex_lock(&c->lock);
	if (fd < 0) {
		c->sample.error = fd;
		c->sample.failures++;
		return false;
	}
	c->fd = fd;
	return true;
}

static void *canary_thread(void *arg)
{
	struct canary *c = arg;
	bool prepared;

	(void)pthread_mutex_lock(&c->lock);
	prepared = prepare(c);
	while (prepared) {
		wait_until_due(c);
		if (c->stopping)
			break;
		sing_once(c);
	}
	unlock_unref(c);
	return NULL;
}

/* Allocates one with everything but its thread. */
static struct canary *canary_alloc(void)
{
	struct canary *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;

	if (!c)
		return NULL;
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&c->changed, &attr);
	(void)pthread_condattr_destroy(&attr);
	c->dirfd = c->fd = -1;
	return c;
}

int canary_new(struct canary **ret, int dirfd)
{
	_cleanup_close_ int copy = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
	struct canary *c;
	pthread_t thread;
	int r;

	if (copy < 0)
		return -errno;
	c = canary_alloc();
	if (!c)
		return -ENOMEM;
	c->dirfd = fd_take(&copy);
	c->refs = 2;
	r = thread_start(&thread, canary_thread, c);
	if (r < 0) {
		destroy(c);
		return r;
	}
	(void)pthread_detach(thread);
	*ret = c;
	return 0;
}

void canary_enable(struct canary *c, bool on)
{
	(void)pthread_mutex_lock(&c->lock);
	c->enabled = on;
	c->poked &= on;
	(void)pthread_cond_signal(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
}

void canary_poke(struct canary *c)
{
	(void)pthread_mutex_lock(&c->lock);
	c->poked = c->enabled;
	(void)pthread_cond_signal(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
}

void canary_sample(struct canary *c, struct canary_sample *ret)
{
	(void)pthread_mutex_lock(&c->lock);
	*ret = c->sample;
	(void)pthread_mutex_unlock(&c->lock);
}

struct canary *canary_free(struct canary *c)
{
	if (!c)
		return NULL;
	(void)pthread_mutex_lock(&c->lock);
	c->stopping = true;
	/* So that the filesystem can be unmounted as soon as this returns, unless one hangs. */
	if (c->sample.started_usec == 0)
		fd_closep(&c->fd);
	(void)pthread_cond_signal(&c->changed);
	unlock_unref(c);
	return NULL;
}
