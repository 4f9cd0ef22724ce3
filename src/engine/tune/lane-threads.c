/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The threads that work: each runs one walker on the threads queue, or many on a ring. */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/batch.h"
#include "lanes-state.h"
#include "engine/core/engine-job.h"
#include "engine/remove/queue.h"
#include "base/macros.h"
#include "base/thread.h"
#include "engine/walk/walker.h"

/* Without memory for a queue, others may give some back. */
#define RETRY_USEC (10 * USEC_PER_MSEC)

/* The lanes that driver `index` runs under a setting. */
static unsigned lanes_of(struct setting s, unsigned index)
{
	if (s.backend == BACKEND_URING)
		return index == 0 ? s.lanes : 0;
	return index < s.lanes ? 1 : 0;
}

/* One driver at work under one setting. */
struct shift {
	struct crew *c;
	struct queue *q;
	struct setting setting;
	unsigned index, lanes, walkers;
};

/* A new setting in which this driver has as many lanes is none to it. */
static bool shift_over(const struct shift *s)
{
	struct setting now = crew_setting_now(s->c);

	return now.backend != s->setting.backend || lanes_of(now, s->index) != s->lanes;
}

static void advance(struct shift *s, struct walker *w, struct batch *b)
{
	if (!b)
		b = walker_step(w);
	if (b) {
		queue_submit(s->q, b);
		return;
	}
	s->walkers--;
	atomic_fetch_add(&s->c->idle, 1);
	crew_release(s->c, w);
}

/* Fills free lanes. Waits for work if there is nothing else to do. False when the shift is over. */
static bool hire(struct shift *s)
{
	struct crew *c = s->c;

	while (s->walkers < s->lanes && !shift_over(s)) {
		struct batch *b = NULL;
		struct walker *w;

		pthread_mutex_lock(&c->lock);
		w = crew_take(c, &b);
		while (!w && s->walkers == 0 && !c->done && !shift_over(s)) {
			if (s->setting.backend == BACKEND_URING || !crew_help(c))
				pthread_cond_wait(&c->wake, &c->lock);
			w = crew_take(c, &b);
		}
		if (w) {
			s->walkers++;
			atomic_fetch_sub(&c->idle, 1);
		}
		pthread_mutex_unlock(&c->lock);
		if (!w)
			break;
		advance(s, w, b);
	}
	return s->walkers > 0;
}

/* May the walker, whose next batch this is, go on in another thread? A lane too many that finishes
 * its directory itself takes turns with the others (crew_turn_begin). */
static bool may_leave(const struct shift *s, const struct batch *next)
{
	return !next || !s->c->job->ways.same_thread || (next->flags & AT_REMOVEDIR);
}

static void shift_work(struct shift *s)
{
	atomic_fetch_add(&s->c->idle, s->lanes);
	while (hire(s)) {
		struct batch *b = queue_wait(s->q);
		bool over = shift_over(s);

		if (b && !over) {
			advance(s, b->walker, NULL);
			continue;
		}
		for (; b; b = queue_wait(s->q)) {
			struct walker *w = b->walker;
			struct batch *next = walker_step(w);

			if (!may_leave(s, next)) {
				queue_submit(s->q, next);
				continue;
			}
			s->walkers--;
			atomic_fetch_add(&s->c->idle, 1);
			if (next)
				crew_park(s->c, s->q, w, next);
			else
				crew_release(s->c, w);
		}
		break;
	}
	atomic_fetch_sub(&s->c->idle, s->lanes);
}

/* Waits until the setting gives this driver something to do. False at the end of the work. */
static bool driver_wait(struct driver *d, struct shift *ret)
{
	struct crew *c = d->crew;
	bool more;

	pthread_mutex_lock(&c->lock);
	while (!c->done && lanes_of(crew_setting_now(c), d->index) == 0)
		pthread_cond_wait(&c->wake, &c->lock);
	more = !c->done;
	*ret = (struct shift){ .c = c, .index = d->index, .setting = crew_setting_now(c) };
	ret->lanes = lanes_of(ret->setting, d->index);
	pthread_mutex_unlock(&c->lock);
	return more;
}

static int queue_for(struct driver *d, struct shift *s)
{
	struct crew *c = d->crew;
	int r;

	if (s->setting.backend == BACKEND_THREADS)
		return queue_threads_new(&s->q, c->job);
	r = queue_uring_new(&s->q, c->job, s->lanes);
	if (r >= 0)
		return r;
	/* It worked when the engine was made: memory or a limit. Threads can always go on. */
	pthread_mutex_lock(&c->lock);
	c->ring_error = r;
	atomic_store(&c->setting,
		     setting_pack((struct setting){ BACKEND_THREADS, s->setting.lanes }));
	pthread_cond_broadcast(&c->wake);
	pthread_mutex_unlock(&c->lock);
	s->setting.backend = BACKEND_THREADS;
	s->lanes = 1;
	return queue_threads_new(&s->q, c->job);
}

static void *driver_main(void *userdata)
{
	struct driver *d = userdata;
	struct shift s;

	__atomic_store_n(&d->crew->gauges[d->index], gauge_open(), __ATOMIC_RELEASE);
	while (driver_wait(d, &s)) {
		if (queue_for(d, &s) < 0) {
			(void)usleep(RETRY_USEC); /* out of memory: others may give some back */
			continue;
		}
		shift_work(&s);
		queue_free(s.q);
	}
	return NULL;
}

int drivers_start(struct crew *c, struct setting s)
{
	unsigned want = s.backend == BACKEND_URING ? 1 : MIN(s.lanes, c->max_drivers);
	int r = 0;

	while (c->n_drivers < want && r == 0) {
		struct driver *d = &c->drivers[c->n_drivers];

		*d = (struct driver){ .crew = c, .index = c->n_drivers };
		r = thread_start(&d->thread, driver_main, d);
		if (r == 0)
			c->n_drivers++;
	}
	return c->n_drivers > 0 ? 0 : r;
}
