/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-task.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/thread.h"
#include "trim/trim.h"

struct trim_task {
	pthread_t thread;
	_Atomic bool cancelled;
	int fd; /* on the filesystem */
	char *mount, *socket;
	dev_t dev;
	uint64_t min_bytes;
	struct pacer *pacer;

	/* The thread's, for all to see. */
	_Atomic uint64_t trimmed_bytes, longest_usec, first_mib_usec;
	int error; /* the thread's until it has told of its end */
	const char *why;
	int ended_fd;

	sd_event_source *source;
	trim_task_ended_t ended;
	void *userdata;
};

static void on_progress(const struct trim_result *r, void *userdata)
{
	struct trim_task *t = userdata;

	atomic_store(&t->trimmed_bytes, r->trimmed_bytes);
	atomic_store(&t->longest_usec, r->longest_usec);
	atomic_store(&t->first_mib_usec, r->first_mib_usec);
}

static const char *obstacle_words(enum trim_obstacle o)
{
	switch (o) {
	case TRIM_NO_DISCARD:
		return "its devices do not discard: there is nothing to be done";
	case TRIM_READ_ONLY:
		return "it is mounted read-only";
	case TRIM_OVERLAY:
		return "an overlay has no free space of its own: its layers are trimmed where they "
		       "are";
	case TRIM_NO_DEVICE:
		return "it is on no block device";
	case TRIM_UNKNOWN:
		return "this filesystem has no FITRIM";
	case TRIM_POSSIBLE:
		break;
	}
	return "";
}

static int work(struct trim_task *t)
{
	const struct trim_unit unit = { t->socket, t->mount, t->dev };
	struct trim_options o = { .min_bytes = t->min_bytes,
				  .pacer = t->pacer,
				  .unit = &unit,
				  .cancelled = &t->cancelled,
				  .progress = on_progress,
				  .userdata = t };
	struct trim_target target;
	struct trim_result result;
	int r = trim_target_find(&target, t->fd);

	if (r < 0)
		return r;
	t->why = obstacle_words(target.obstacle);
	/* A device that does not discard is no fault. */
	if (target.obstacle != TRIM_POSSIBLE)
		return target.obstacle == TRIM_NO_DISCARD ? 0 : -EOPNOTSUPP;
	r = trim_run(t->fd, &target, &o, &result);
	on_progress(&result, t);
	if (r == -EOPNOTSUPP) {
		t->why = obstacle_words(TRIM_NO_DISCARD);
		return 0;
	}
	return r < 0 || result.complete ? r : -ECANCELED;
}

static void *thread_main(void *userdata)
{
	struct trim_task *t = userdata;
	uint64_t one = 1;

	courtesy_show();
	t->error = work(t);
	/* It may be unmounted from here on. */
	fd_closep(&t->fd);
	/* It cannot fail: nothing else counts there. */
	if (write(t->ended_fd, &one, sizeof(one)) < 0)
		return NULL;
	return NULL;
}

static int on_ended(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct trim_task *t = userdata;
	uint64_t ended;

	(void)events;
	/* By this, all that the thread has written before is there. */
	(void)!read(fd, &ended, sizeof(ended));
	(void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
	/* It may free the task. */
	t->ended(t->error, t->why, t->userdata);
	return 0;
}

static void task_free(struct trim_task *t)
{
	sd_event_source_disable_unref(t->source);
	fd_closep(&t->fd);
	fd_closep(&t->ended_fd);
	free(t->mount);
	free(t->socket);
	free(t);
}

int trim_task_new(struct trim_task **ret, sd_event *event, const struct trim_task_options *o,
		  trim_task_ended_t ended, void *userdata)
{
	struct trim_task *t = calloc(1, sizeof(*t));
	int r = 0;

	if (!t)
		return -ENOMEM;
	*t = (struct trim_task){ .fd = fcntl(o->fd, F_DUPFD_CLOEXEC, 3),
				 .mount = strdup(o->mount),
				 .socket = strdup(o->socket),
				 .dev = o->dev,
				 .min_bytes = o->min_bytes,
				 .pacer = o->pacer,
				 .why = "",
				 .ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
				 .ended = ended,
				 .userdata = userdata };
	if (!t->mount || !t->socket)
		r = -ENOMEM;
	else if (t->fd < 0 || t->ended_fd < 0)
		r = -EMFILE;
	if (r >= 0)
		r = sd_event_add_io(event, &t->source, t->ended_fd, EPOLLIN, on_ended, t);
	if (r >= 0)
		r = thread_start(&t->thread, thread_main, t);
	if (r < 0) {
		task_free(t);
		return r;
	}
	(void)sd_event_source_set_description(t->source, "trim");
	*ret = t;
	return 0;
}

void trim_task_stop(struct trim_task *t)
{
	atomic_store(&t->cancelled, true);
}

void trim_task_progress(struct trim_task *t, struct trim_task_progress *ret)
{
	*ret = (struct trim_task_progress){ atomic_load(&t->trimmed_bytes),
					    atomic_load(&t->longest_usec),
					    atomic_load(&t->first_mib_usec) };
}

struct trim_task *trim_task_free(struct trim_task *t)
{
	if (!t)
		return NULL;
	trim_task_stop(t);
	(void)pthread_join(t->thread, NULL);
	task_free(t);
	return NULL;
}
