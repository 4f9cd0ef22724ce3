/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pacing-window.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "config/config.h"
#include "daemon/context/log.h"
#include "daemon/workers/pacers.h"

/* Far away, so that the timer is set and tells of the clock. */
#define NEVER_SEC (1LL << 33)

struct pacing_window {
	struct jobs *jobs;
	struct window_state state;
	int fd; /* the loop's own timers do not tell that the clock was set */
	sd_event_source *source;
};

struct window_state pacing_window_state(const struct pacing_window *w)
{
	return w ? w->state : (struct window_state){ NULL, UINT64_MAX };
}

bool pacing_window_pauses(const struct pacing_window *w)
{
	return w && w->state.window && w->state.window->rate == 0;
}

bool pacing_window_rests(const struct jobs *jobs, const struct staging_area *area)
{
	return pacing_window_pauses(jobs->window) && !area->short_of_space;
}

/* Returns -ECANCELED if the clock was set since it was set last; it is set nevertheless. */
static int timer_set(const struct pacing_window *w, uint64_t usec)
{
	const struct itimerspec at = {
		.it_value.tv_sec = (time_t)MIN(usec / USEC_PER_SEC, (uint64_t)NEVER_SEC),
	};

	return timerfd_settime(w->fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &at, NULL) < 0
		       ? -errno
		       : 0;
}

static void say(const struct config_window *before, const struct config_window *now)
{
	if (now && now->rate == 0)
		log_line(LOG_INFO, "Pacing window %s: no job runs, but where free space is short",
			 now->span);
	else if (now)
		log_line(LOG_INFO, "Pacing window %s: deletions go slower", now->span);
	else
		log_line(LOG_INFO, "Pacing window %s has ended", before->span);
}

static bool is_same(const struct config_window *a, const struct config_window *b)
{
	return a == b || (a && b && a->rate == b->rate && strcmp(a->span, b->span) == 0);
}

/* Which one is in force now, and until when. */
static void look(struct pacing_window *w)
{
	static const char *const properties[] = { "PacingWindow", "PacingWindowRate",
						  "PacingWindowUntilUSec" };
	struct context *c = w->jobs->context;
	const struct window_state before = w->state;
	int r;

	/* The time zone may be another one, too. */
	tzset();
	do {
		w->state = windows_at(c->config->windows, c->config->n_windows, context_clock());
		r = timer_set(w, w->state.until_usec);
	} while (r == -ECANCELED);
	if (r < 0)
		log_line(LOG_ERR, "The end of the pacing window cannot be waited for: %s",
			 strerror(-r));
	if (!is_same(before.window, w->state.window)) {
		say(before.window, w->state.window);
		pacers_window(c->pacers, w->state.window && !pacing_window_pauses(w)
						 ? w->state.window->rate
						 : UINT64_MAX);
		w->jobs->window_changed(w->jobs);
	} else if (before.until_usec == w->state.until_usec) {
		return;
	}
	for (size_t i = 0; i < ELEMENTSOF(properties); i++)
		tell_daemon_changed(c, properties[i]);
}

static int on_timer(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	uint64_t times;

	(void)source;
	(void)events;
	/* How often does not matter, nor whether it was the clock. */
	(void)!read(fd, &times, sizeof(times));
	look(userdata);
	return 0;
}

void pacing_window_configure(struct pacing_window *w)
{
	if (w)
		look(w);
}

int pacing_window_new(struct pacing_window **ret, struct jobs *jobs)
{
	struct pacing_window *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	*w = (struct pacing_window){ .jobs = jobs, .state = { NULL, UINT64_MAX } };
	w->fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	r = w->fd < 0 ? -errno : 0;
	if (r >= 0)
		r = sd_event_add_io(jobs->context->event, &w->source, w->fd, EPOLLIN, on_timer, w);
	if (r < 0) {
		(void)pacing_window_free(w);
		return r;
	}
	(void)sd_event_source_set_description(w->source, "pacing window");
	*ret = w;
	look(w);
	return 0;
}

struct pacing_window *pacing_window_free(struct pacing_window *w)
{
	if (!w)
		return NULL;
	(void)sd_event_source_disable_unref(w->source);
	fd_closep(&w->fd);
	free(w);
	return NULL;
}
