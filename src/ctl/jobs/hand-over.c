/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hand-over.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/thread.h"

/* What is less is handed over before it could be read. */
#define NAMES_LEAST 10000
#define DRAW_USEC (USEC_PER_SEC / 10)

struct hand_over {
	struct progress *progress;
	size_t total, before, names; /* names: of this call; before: of those before it */
	bool dry;
	int fd;
	pthread_t thread;
	bool running, stop; /* stop: under the lock */
	pthread_mutex_t lock;
	pthread_cond_t stopped;
};

struct hand_over *hand_over_new(bool quiet, size_t names)
{
	struct hand_over *h;

	if (names < NAMES_LEAST || !isatty(STDERR_FILENO))
		return NULL;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	h->total = names;
	h->progress = progress_new(SWITCH_AUTO, quiet);
	h->fd = h->progress ? memfd_create("reclaim-progress", MFD_CLOEXEC) : -1;
	(void)pthread_mutex_init(&h->lock, NULL);
	(void)pthread_cond_init(&h->stopped, NULL);
	return h->fd < 0 ? hand_over_free(h) : h;
}

struct hand_over *hand_over_free(struct hand_over *h)
{
	if (!h)
		return NULL;
	hand_over_end(h);
	progress_free(h->progress);
	fd_closep(&h->fd);
	(void)pthread_cond_destroy(&h->stopped);
	(void)pthread_mutex_destroy(&h->lock);
	free(h);
	return NULL;
}

static void draw(const struct hand_over *h)
{
	uint64_t v[2] = { 0 }; /* checked, moved */
	double all = (double)h->total, n;

	if (pread(h->fd, v, sizeof(v), 0) < 0)
		return;
	v[0] = MIN(v[0], (uint64_t)h->names);
	v[1] = MIN(v[1], (uint64_t)h->names);
	n = (double)h->before + (double)(h->dry ? v[0] : v[1]);
	/* To check and to move them takes about the same time. */
	progress_names(h->progress, h->dry || v[1] == 0 ? "checked" : "moved out of the way",
		       h->before + (h->dry || v[1] == 0 ? v[0] : v[1]), h->total,
		       h->dry ? n / all : (n + (double)h->before + (double)v[0]) / (2 * all));
}

static void *draw_on(void *userdata)
{
	struct hand_over *h = userdata;

	pthread_mutex_lock(&h->lock);
	while (!h->stop) {
		cond_wait_until(&h->stopped, &h->lock, now_usec() + DRAW_USEC);
		if (!h->stop)
			draw(h);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

int hand_over_begin(struct hand_over *h, size_t names, bool dry)
{
	if (!h)
		return -1;
	/* What is checked first is sent then, from the first one on. */
	if (h->dry != dry)
		h->before = 0;
	h->names = names;
	h->dry = dry;
	h->stop = false;
	/* What the call before has left there is not this one's. */
	if (ftruncate(h->fd, 0) < 0)
		return -1;
	h->running = thread_start(&h->thread, draw_on, h) >= 0;
	return h->running ? h->fd : -1;
}

void hand_over_end(struct hand_over *h)
{
	if (!h || !h->running)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_signal(&h->stopped);
	pthread_mutex_unlock(&h->lock);
	(void)pthread_join(h->thread, NULL);
	h->running = false;
	h->before += h->names;
	progress_pause(h->progress);
}
