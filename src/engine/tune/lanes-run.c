/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The caller's thread: begins alone, starts threads, tunes them and reports. */
#include <inttypes.h>
#include <pthread.h>
#include <time.h>

#include "engine/core/batch.h"
#include "lanes.h"
#include "lanes-state.h"
#include "engine/core/engine-job.h"
#include "engine/remove/queue.h"
#include "base/debug.h"
#include "base/macros.h"
#include "engine/walk/walker.h"

/* How often the caller's thread looks, tunes and reports. While all that is waited for is what a
 * few operations take alone, it looks more often. */
#define TICK (10 * USEC_PER_MSEC)
#define TICK_FIRST (2 * USEC_PER_MSEC)
#define PROGRESS_EVERY (100 * USEC_PER_MSEC)

/* Threads take some 150 µs to start and to end. A tree that is gone sooner is deleted by the
 * caller's thread; so many entries at a time at most, in case each of them takes a disk's time:
 * nothing is tuned or reported meanwhile. */
#define TRY_USEC 500
#define TRY_ENTRIES 32

static void setting_apply(struct lanes *l, struct setting s)
{
	if (setting_pack(s) == atomic_load(&l->tasks.setting))
		return;
	(void)lane_threads_start(l, s);
	if (s.backend == BACKEND_THREADS)
		s.lanes = MIN(s.lanes, MAX(l->n_threads, 1U));
	pthread_mutex_lock(&l->tasks.lock);
	atomic_store(&l->tasks.setting, setting_pack(s));
	pthread_cond_broadcast(&l->tasks.wake);
	pthread_mutex_unlock(&l->tasks.lock);
}

static void progress(struct lanes *l, uint64_t began)
{
	struct engine_progress p = { .elapsed_usec = now_usec() - began };
	struct setting set;

	if (!l->job->o.progress)
		return;
	job_stats(l->job, &p.stats);
	set = tasks_setting(&l->tasks);
	p.backend = set.backend;
	p.lanes = set.lanes;
	l->job->o.progress(&p, l->job->o.userdata);
}

/* One lane: what it reads is one request at a time, as any process's. More of them gain what others
 * lose. */
static void spare_others(struct lanes *l)
{
	struct setting s = tasks_setting(&l->tasks);

	if (s.lanes == 1)
		return;
	debug_log("lanes: 1 instead of %u: the pace spares other processes' reads", s.lanes);
	s.lanes = 1;
	setting_apply(l, s);
}

/* Can this process have a ring? Setting one up takes longer than deleting a small tree, so it is
 * tried when the first one is wanted. */
static bool ring_usable(struct lanes *l)
{
	struct queue *probe = NULL;

	if (l->ring_error == 0 && !l->ring_tried) {
		l->ring_tried = true;
		l->ring_error = queue_uring_new(&probe, l->job, 1);
		queue_free(probe);
	}
	return l->ring_error == 0;
}

static void tune(struct lanes *l, struct tuner *t)
{
	struct setting next, before = tasks_setting(&l->tasks);
	struct stats st;
	struct tuner_sample s = { .now_usec = now_usec(), .starved = true };

	if (job_paced(l->job)) {
		spare_others(l);
		(void)tuner_next(t, &s); /* nothing is to be learnt from this */
		return;
	}
	/* A look at each thread takes longer than anything else here. */
	if (atomic_load(&l->tasks.idle) == 0) {
		job_stats(l->job, &st);
		s = (struct tuner_sample){ .now_usec = s.now_usec,
					   .cpu_usec = gauge_read(l->gauges, l->n_threads),
					   .reads = gauge_reads(),
					   .entries = st.entries + st.errors,
					   .ops = stat_get(&l->job->ops),
					   .op_usec = stat_get(&l->job->op_usec) };
	}
	tuner_bound(t, job_op_latency(l->job));
	next = tuner_next(t, &s);
	if (next.backend == BACKEND_URING && !ring_usable(l))
		next = tuner_without_ring(t);
	if (setting_pack(next) != setting_pack(before))
		debug_log("lanes: %u on %s instead of %u on %s: %s (best so far %.0f entries/s, "
			  "%" PRIu64 " entries removed, %u CPUs)",
			  next.lanes, backend_name(next.backend), before.lanes,
			  backend_name(before.backend), t->why, t->best_rate, s.entries, l->cpus);
	setting_apply(l, next);
}

/* Sleeps so long or until the work is done. Returns whether it is. */
static bool tick(struct lanes *l, uint64_t usec)
{
	struct timespec until;
	bool done;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)usec * 1000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&l->tasks.lock);
	if (!l->done)
		(void)pthread_cond_timedwait(&l->ended, &l->tasks.lock, &until);
	done = l->done;
	pthread_mutex_unlock(&l->tasks.lock);
	return done;
}

static void tuner_start(struct lanes *l, struct tuner *t)
{
	const struct engine_options *o = &l->job->o;
	const struct fs_profile *w = &l->job->profile;
	struct tuner_options to = {
		.start = tasks_setting(&l->tasks),
		.lanes_max = w->lanes_max,
		.cpus = l->cpus,
		.fixed_backend = o->fixed_backend,
		.fixed_lanes = o->lanes != 0,
		.remote = w->remote,
		.op_usec = job_op_latency(l->job),
		.uring_possible = true, /* until one is wanted, see ring_usable */
	};

	tuner_init(t, &to);
}

/* Goes on with one walker until its end or the end of the time. Returns whether it came to its end.
 */
static bool try_walker(struct lanes *l, struct queue *q, struct walker *w, uint64_t until)
{
	struct batch *b = walker_step(w);

	for (; b && b->n <= TRY_ENTRIES && now_usec() < until; b = walker_step(w)) {
		queue_submit(q, b);
		(void)queue_wait(q);
	}
	if (b)
		lanes_park(l, q, w, b);
	else
		lanes_release(l, w);
	return !b;
}

/* Begins the work on the caller's thread, alone, and leaves what takes longer to threads. */
static void try_alone(struct lanes *l, uint64_t until)
{
	struct queue *q = NULL;
	bool more = true;

	if (tasks_setting(&l->tasks).backend == BACKEND_URING || l->job->pace ||
	    l->job->profile.same_thread || queue_threads_new(&q, l->job) < 0)
		return;
	while (more && now_usec() < until) {
		struct walker *w;
		struct batch *b;

		pthread_mutex_lock(&l->tasks.lock);
		w = lanes_claim(l, &b);
		pthread_mutex_unlock(&l->tasks.lock);
		more = w && try_walker(l, q, w, until);
	}
	queue_free(q);
}

static void tell_start(const struct lanes *l)
{
	const struct engine_job *j = l->job;
	const struct fs_profile *p = &j->profile;
	struct setting s = tasks_setting(&l->tasks);

	debug_log("lanes: %u on %s to begin with, %u at most, %u CPUs, as %s (%s)", s.lanes,
		  backend_name(s.backend), p->lanes_max, l->cpus,
		  j->o.lanes || j->o.fixed_backend ? "it was asked for" : "the filesystem wants it",
		  p->family);
	debug_log("large files: %s",
		  j->o.shrink_min_bytes == 0  ? "unlinked whole: that was asked for"
		  : p->shrink == SHRINK_NEVER ? "unlinked whole: this filesystem frees them well"
		  : !p->lease_truthful        ? "unlinked whole: leases prove nothing here"
		  : !j->o.last_reference
			  ? "unlinked whole: other references cannot be ruled out here"
			  : "freed in steps where nothing else refers to them");
}

int lanes_run(struct lanes *l)
{
	uint64_t began = now_usec(), reported = began;
	struct tuner t;
	int r;

	if (!l->tasks.first)
		return 0;
	tell_start(l);
	/* With one walker all tasks can be done, one after the other, whatever memory is left. */
	r = walker_new(&l->spare, l->job);
	if (r < 0)
		return r;
	try_alone(l, began + TRY_USEC);
	tuner_start(l, &t);
	if (job_paced(l->job))
		spare_others(l);
	r = l->done ? 0 : lane_threads_start(l, tasks_setting(&l->tasks));
	if (r < 0)
		return r;
	while (!tick(l, t.fresh && t.op_usec ? TICK_FIRST : TICK)) {
		tune(l, &t);
		if (now_usec() - reported >= PROGRESS_EVERY) {
			reported = now_usec();
			progress(l, began);
		}
	}
	for (unsigned i = 0; i < l->n_threads; i++) {
		pthread_join(l->threads[i].thread, NULL);
		fd_closep(&l->gauges[i]);
	}
	progress(l, began);
	return 0;
}
