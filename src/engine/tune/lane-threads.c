/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The threads that work: each runs one walker on the threads queue, or many on a ring. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "engine/remove/batch-work.h"
#include "lanes-state.h"
#include "engine/core/engine-job.h"
#include "engine/remove/queue.h"
#include "base/macros.h"
#include "base/thread.h"
#include "engine/walk/walker.h"

/* Without memory for a queue, others may give some back. */
#define RETRY_USEC (10 * USEC_PER_MSEC)

/* The lanes that thread `index` runs under a setting. */
static unsigned lanes_of(struct setting s, unsigned index)
{
	if (s.backend == BACKEND_URING)
		return index == 0 ? s.lanes : 0;
	return index < s.lanes ? 1 : 0;
}

/* One thread at work under one setting. */
struct epoch {
	struct lanes *l;
	struct queue *q;
	struct setting setting;
	unsigned index, lanes, walkers;
};

/* A new setting in which this thread has as many lanes is none to it. */
static bool epoch_over(const struct epoch *s)
{
	struct setting now = tasks_setting(&s->l->tasks);

	return now.backend != s->setting.backend || lanes_of(now, s->index) != s->lanes;
}

static void advance(struct epoch *s, struct walker *w, struct batch *b)
{
	if (!b)
		b = walker_step(w);
	if (b) {
		queue_submit(s->q, b);
		return;
	}
	assert(s->walkers > 0);
	s->walkers--;
	atomic_fetch_add(&s->l->tasks.idle, 1);
	lanes_release(s->l, w);
}

/* Works on another lane's batch, if one wants help. Called and returns with the lock held. */
static bool help(struct lanes *l)
{
	struct batch *b = tasks_help_begin(&l->tasks);

	if (!b)
		return false;
	tasks_busy(&l->tasks, 1);
	pthread_mutex_unlock(&l->tasks.lock);
	batch_work(b);
	pthread_mutex_lock(&l->tasks.lock);
	atomic_fetch_add(&l->tasks.idle, 1);
	tasks_help_end(&l->tasks, b);
	return true;
}

/* Fills free lanes. Waits for work if there is nothing else to do. False when the epoch is over. */
static bool fill(struct epoch *s)
{
	struct lanes *l = s->l;

	while (s->walkers < s->lanes && !epoch_over(s)) {
		struct batch *b = NULL;
		struct walker *w;

		pthread_mutex_lock(&l->tasks.lock);
		w = lanes_claim(l, &b);
		while (!w && s->walkers == 0 && !l->done && !epoch_over(s)) {
			if (s->setting.backend == BACKEND_URING || !help(l))
				pthread_cond_wait(&l->tasks.wake, &l->tasks.lock);
			w = lanes_claim(l, &b);
		}
		if (w) {
			s->walkers++;
			tasks_busy(&l->tasks, 1);
		}
		pthread_mutex_unlock(&l->tasks.lock);
		if (!w)
			break;
		advance(s, w, b);
	}
	return s->walkers > 0;
}

/* May the walker, whose next batch this is, go on in another thread? A lane too many that finishes
 * its directory itself takes turns with the others (tasks_turn_begin). */
static bool may_leave(const struct epoch *s, const struct batch *next)
{
	return !next || !s->l->job->profile.same_thread || (next->flags & AT_REMOVEDIR);
}

static void epoch_work(struct epoch *s)
{
	atomic_fetch_add(&s->l->tasks.idle, s->lanes);
	while (fill(s)) {
		struct batch *b = queue_wait(s->q);
		bool over = epoch_over(s);

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
			assert(s->walkers > 0);
			s->walkers--;
			atomic_fetch_add(&s->l->tasks.idle, 1);
			if (next)
				lanes_park(s->l, s->q, w, next);
			else
				lanes_release(s->l, w);
		}
		break;
	}
	assert(s->walkers == 0);
	tasks_busy(&s->l->tasks, s->lanes);
}

/* Waits until the setting gives this thread something to do. False at the end of the work. */
static bool thread_wait(struct lane_thread *t, struct epoch *ret)
{
	struct lanes *l = t->lanes;
	bool more;

	pthread_mutex_lock(&l->tasks.lock);
	while (!l->done && lanes_of(tasks_setting(&l->tasks), t->index) == 0)
		pthread_cond_wait(&l->tasks.wake, &l->tasks.lock);
	more = !l->done;
	*ret = (struct epoch){ .l = l, .index = t->index, .setting = tasks_setting(&l->tasks) };
	ret->lanes = lanes_of(ret->setting, t->index);
	pthread_mutex_unlock(&l->tasks.lock);
	return more;
}

static int queue_for(struct lane_thread *t, struct epoch *s)
{
	struct lanes *l = t->lanes;
	int r;

	if (s->setting.backend == BACKEND_THREADS)
		return queue_threads_new(&s->q, l->job);
	r = queue_uring_new(&s->q, l->job, s->lanes);
	if (r >= 0)
		return r;
	/* It worked when the engine was made: memory or a limit. Threads can always go on. */
	pthread_mutex_lock(&l->tasks.lock);
	l->ring_error = r;
	atomic_store(&l->tasks.setting,
		     setting_pack((struct setting){ BACKEND_THREADS, s->setting.lanes }));
	pthread_cond_broadcast(&l->tasks.wake);
	pthread_mutex_unlock(&l->tasks.lock);
	s->setting.backend = BACKEND_THREADS;
	s->lanes = 1;
	return queue_threads_new(&s->q, l->job);
}

static void *thread_main(void *userdata)
{
	struct lane_thread *t = userdata;
	struct epoch s;

	__atomic_store_n(&t->lanes->gauges[t->index], gauge_open(), __ATOMIC_RELEASE);
	while (thread_wait(t, &s)) {
		if (queue_for(t, &s) < 0) {
			(void)usleep(RETRY_USEC); /* out of memory: others may give some back */
			continue;
		}
		epoch_work(&s);
		queue_free(s.q);
	}
	return NULL;
}

int lane_threads_start(struct lanes *l, struct setting s)
{
	unsigned want = s.backend == BACKEND_URING ? 1 : MIN(s.lanes, l->max_threads);
	int r = 0;

	while (l->n_threads < want && r == 0) {
		struct lane_thread *t = &l->threads[l->n_threads];

		*t = (struct lane_thread){ .lanes = l, .index = l->n_threads };
		r = thread_start(&t->thread, thread_main, t);
		if (r == 0)
			l->n_threads++;
	}
	return l->n_threads > 0 ? 0 : r;
}
