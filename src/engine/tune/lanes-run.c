/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The caller's thread: begins alone, starts drivers, tunes them and reports. */
#include <pthread.h>
#include <time.h>

#include "engine/core/batch.h"
#include "lanes-state.h"
#include "engine/core/engine-job.h"
#include "engine/remove/queue.h"
#include "base/macros.h"
#include "engine/walk/walker.h"

/* How often the caller's thread looks, tunes and reports. While all that is waited for is what a
 * few operations take alone, it looks more often. */
#define TICK (10 * USEC_PER_MSEC)
#define TICK_FIRST (2 * USEC_PER_MSEC)
#define PROGRESS_EVERY (100 * USEC_PER_MSEC)

/* Threads take some 150 µs to start and to end. A tree that is gone sooner is deleted by the
 * caller's thread; so many entries at a time at most, in case each of them takes a disk's time:
 * nobody tunes or reports meanwhile. */
#define TRY_USEC 500
#define TRY_ENTRIES 32

static void setting_apply(struct crew *c, struct setting s)
{
	if (setting_pack(s) == atomic_load(&c->setting))
		return;
	(void)drivers_start(c, s);
	if (s.backend == BACKEND_THREADS)
		s.lanes = MIN(s.lanes, MAX(c->n_drivers, 1U));
	pthread_mutex_lock(&c->lock);
	atomic_store(&c->setting, setting_pack(s));
	pthread_cond_broadcast(&c->wake);
	pthread_mutex_unlock(&c->lock);
}

static void progress(struct crew *c, uint64_t began)
{
	struct engine_progress p = { .elapsed_usec = now_usec() - began };

	if (!c->job->o.progress)
		return;
	job_stats(c->job, &p.stats);
	crew_setting(c, &p.backend, &p.lanes);
	c->job->o.progress(&p, c->job->o.userdata);
}

/* One lane: what it reads is one request at a time, as anybody's. More of them gain what others
 * lose. */
static void spare_others(struct crew *c)
{
	struct setting s = crew_setting_now(c);

	s.lanes = 1;
	setting_apply(c, s);
}

/* Can this process have a ring? Setting one up takes longer than deleting a small tree, so it is
 * tried when the first one is wanted. */
static bool ring_usable(struct crew *c)
{
	struct queue *probe = NULL;

	if (c->ring_error == 0 && !c->ring_tried) {
		c->ring_tried = true;
		c->ring_error = queue_uring_new(&probe, c->job, 1);
		queue_free(probe);
	}
	return c->ring_error == 0;
}

static void tune(struct crew *c, struct tuner *t)
{
	struct setting next;
	struct stats st;
	struct tuner_sample s = { .now_usec = now_usec(), .starved = true };

	if (job_paced(c->job)) {
		spare_others(c);
		(void)tuner_next(t, &s); /* nothing is to be learnt from this */
		return;
	}
	/* A look at each thread takes longer than anything else here. */
	if (atomic_load(&c->idle) == 0) {
		job_stats(c->job, &st);
		s = (struct tuner_sample){ .now_usec = s.now_usec,
					   .cpu_usec = gauge_read(c->gauges, c->n_drivers),
					   .reads = gauge_reads(),
					   .entries = st.entries + st.errors,
					   .ops = stat_get(&c->job->ops),
					   .op_usec = stat_get(&c->job->op_usec) };
	}
	tuner_bound(t, job_op_latency(c->job));
	next = tuner_next(t, &s);
	if (next.backend == BACKEND_URING && !ring_usable(c))
		next = tuner_without_ring(t);
	setting_apply(c, next);
}

/* Sleeps so long or until the work is done. Returns whether it is. */
static bool tick(struct crew *c, uint64_t usec)
{
	struct timespec until;
	bool done;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)usec * 1000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&c->lock);
	if (!c->done)
		(void)pthread_cond_timedwait(&c->ended, &c->lock, &until);
	done = c->done;
	pthread_mutex_unlock(&c->lock);
	return done;
}

static void tuner_start(struct crew *c, struct tuner *t)
{
	const struct engine_options *o = &c->job->o;
	const struct ways *w = &c->job->ways;
	struct tuner_options to = {
		.start = crew_setting_now(c),
		.lanes_max = w->lanes_max,
		.cpus = c->cpus,
		.fixed_backend = o->fixed_backend,
		.fixed_lanes = o->lanes != 0,
		.remote = w->remote,
		.op_usec = job_op_latency(c->job),
		.uring_possible = true, /* until one is wanted, see ring_usable */
	};

	tuner_init(t, &to);
}

/* Goes on with one walker until its end or the end of the time. Returns whether it came to its end.
 */
static bool try_walker(struct crew *c, struct queue *q, struct walker *w, uint64_t until)
{
	struct batch *b = walker_step(w);

	for (; b && b->n <= TRY_ENTRIES && now_usec() < until; b = walker_step(w)) {
		queue_submit(q, b);
		(void)queue_wait(q);
	}
	if (b)
		crew_park(c, q, w, b);
	else
		crew_release(c, w);
	return !b;
}

/* Begins the work on the caller's thread, alone, and leaves what takes longer to the drivers. */
static void try_alone(struct crew *c, uint64_t until)
{
	struct queue *q = NULL;
	bool more = true;

	if (crew_setting_now(c).backend == BACKEND_URING || c->job->pace ||
	    c->job->ways.same_thread || queue_threads_new(&q, c->job) < 0)
		return;
	while (more && now_usec() < until) {
		struct walker *w;
		struct batch *b;

		pthread_mutex_lock(&c->lock);
		w = crew_take(c, &b);
		pthread_mutex_unlock(&c->lock);
		more = w && try_walker(c, q, w, until);
	}
	queue_free(q);
}

int crew_run(struct crew *c)
{
	uint64_t began = now_usec(), reported = began;
	struct tuner t;
	int r;

	if (!c->tasks)
		return 0;
	/* With one walker all tasks can be done, one after the other, whatever memory is left. */
	r = walker_new(&c->spare, c->job);
	if (r < 0)
		return r;
	try_alone(c, began + TRY_USEC);
	tuner_start(c, &t);
	if (job_paced(c->job))
		spare_others(c);
	r = c->done ? 0 : drivers_start(c, crew_setting_now(c));
	if (r < 0)
		return r;
	while (!tick(c, t.fresh && t.op_usec ? TICK_FIRST : TICK)) {
		tune(c, &t);
		if (now_usec() - reported >= PROGRESS_EVERY) {
			reported = now_usec();
			progress(c, began);
		}
	}
	for (unsigned i = 0; i < c->n_drivers; i++) {
		pthread_join(c->drivers[i].thread, NULL);
		fd_closep(&c->gauges[i]);
	}
	progress(c, began);
	return 0;
}
