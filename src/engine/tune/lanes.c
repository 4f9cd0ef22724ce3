/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lanes.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "tuner.h"
#include "engine/core/batch.h"
#include "engine/remove/batch-work.h"
#include "engine/remove/queue.h"
#include "engine/walk/node.h"
#include "engine/walk/walker.h"
#include "base/debug.h"
#include "base/thread.h"

/* How often the caller's thread looks, tunes and reports. While all that is waited for is what a
 * few operations take alone, it looks more often. */
#define TICK (10 * USEC_PER_MSEC)
#define TICK_FIRST (2 * USEC_PER_MSEC)

/* Threads take some 150 µs to start and to end. A tree that is gone sooner is deleted by the
 * caller's thread; so many entries at a time at most, in case each of them takes a disk's time:
 * nothing is tuned or reported meanwhile. */
#define TRY_USEC 500
#define TRY_ENTRIES 32

/* Without memory for a queue, others may give some back. */
#define RETRY_USEC (10 * USEC_PER_MSEC)

struct lane_thread {
	struct lanes *lanes;
	pthread_t thread;
	_Atomic int schedstat_fd; /* -1: none; see gauge() */
};

struct lanes {
	struct engine_job *job;
	struct tasks tasks;    /* its lock is for all of this, too */
	pthread_cond_t ended;  /* for the caller of lanes_run alone */
	struct walker *parked; /* with a batch that is to be performed next */
	struct walker *spare;  /* without a task, to be used again */
	unsigned n_walkers;    /* at work or parked */
	bool done;
	_Atomic int ring; /* can this process have one? 0: not known, 1: yes, -1: no */
	struct lane_thread *threads;
	unsigned n_threads, cpus;
};

/* ---- walkers ----------------------------------------------------------------------------------
 */

/* Claims a walker that has something to do: a parked one, or a new one on the next task. NULL if
 * there is none. Lock held. */
static struct walker *claim(struct lanes *l)
{
	struct walker *w = walker_pop(&l->parked);

	if (w || !l->tasks.first)
		return w;
	w = walker_pop(&l->spare);
	if (!w && walker_new(&w, l->job) < 0)
		return NULL;
	walker_begin(w, tasks_take(&l->tasks));
	l->n_walkers++;
	return w;
}

/* Gives a walker back: parked with its next batch, for another thread, or with its task done. */
static void give_back(struct lanes *l, struct walker *w, bool parked)
{
	pthread_mutex_lock(&l->tasks.lock);
	walker_push(parked ? &l->parked : &l->spare, w);
	assert(l->n_walkers > 0 && !l->done);
	l->n_walkers -= !parked;
	l->done = l->n_walkers == 0 && !l->tasks.first;
	if (parked || l->done)
		pthread_cond_broadcast(&l->tasks.wake);
	if (l->done)
		pthread_cond_broadcast(&l->ended);
	pthread_mutex_unlock(&l->tasks.lock);
}

/* ---- threads: each runs one walker with system calls, or many on a ring -----------------------
 */

/* The lanes that thread `index` runs under a setting. */
static unsigned lanes_of(struct setting s, size_t index)
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
	size_t index;
	unsigned lanes, walkers;
};

/* A new setting in which this thread has as many lanes is none to it. */
static bool epoch_over(const struct epoch *s)
{
	struct setting now = tasks_setting(&s->l->tasks);

	return now.backend != s->setting.backend || lanes_of(now, s->index) != s->lanes;
}

static void leave(struct epoch *s, struct walker *w, bool parked)
{
	assert(s->walkers > 0);
	s->walkers--;
	atomic_fetch_add(&s->l->tasks.idle, 1);
	give_back(s->l, w, parked);
}

static void advance(struct epoch *s, struct walker *w, struct batch *b)
{
	if (!b)
		b = walker_step(w);
	if (b)
		queue_submit(s->q, b);
	else
		leave(s, w, /* parked= */ false);
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
		struct walker *w;

		pthread_mutex_lock(&l->tasks.lock);
		w = claim(l);
		while (!w && s->walkers == 0 && !l->done && !epoch_over(s)) {
			if (s->setting.backend == BACKEND_URING || !help(l))
				pthread_cond_wait(&l->tasks.wake, &l->tasks.lock);
			w = claim(l);
		}
		if (w) {
			s->walkers++;
			tasks_busy(&l->tasks, 1);
		}
		pthread_mutex_unlock(&l->tasks.lock);
		if (!w)
			break;
		advance(s, w, walker_batch(w));
	}
	return s->walkers > 0;
}

static void epoch_work(struct epoch *s)
{
	bool over = false;

	atomic_fetch_add(&s->l->tasks.idle, s->lanes);
	while (!over && fill(s)) {
		struct batch *b = queue_wait(s->q);

		over = !b || epoch_over(s);
		if (!over)
			advance(s, b->walker, NULL);
		/* Another thread goes on with what is left. Where one thread finishes what it has
		 * listed, a lane too many takes turns with the others (tasks_turn_begin). */
		for (; over && b; b = queue_wait(s->q)) {
			struct walker *w = b->walker;
			struct batch *next = walker_step(w);

			if (next && s->l->job->profile.same_thread && !(next->flags & AT_REMOVEDIR))
				queue_submit(s->q, next);
			else
				leave(s, w, /* parked= */ next != NULL);
		}
	}
	assert(s->walkers == 0);
	tasks_busy(&s->l->tasks, s->lanes);
}

/* Waits until the setting gives this thread something to do. False at the end of the work. */
static bool epoch_wait(struct lane_thread *t, struct epoch *ret)
{
	struct lanes *l = t->lanes;
	bool more;

	*ret = (struct epoch){ .l = l, .index = (size_t)(t - l->threads) };
	pthread_mutex_lock(&l->tasks.lock);
	while (!l->done && lanes_of(tasks_setting(&l->tasks), ret->index) == 0)
		pthread_cond_wait(&l->tasks.wake, &l->tasks.lock);
	more = !l->done;
	ret->setting = tasks_setting(&l->tasks);
	ret->lanes = lanes_of(ret->setting, ret->index);
	pthread_mutex_unlock(&l->tasks.lock);
	return more;
}

static void setting_publish(struct lanes *l, struct setting s)
{
	pthread_mutex_lock(&l->tasks.lock);
	atomic_store(&l->tasks.setting, setting_pack(s));
	pthread_cond_broadcast(&l->tasks.wake);
	pthread_mutex_unlock(&l->tasks.lock);
}

static int queue_for(struct epoch *s)
{
	int r = queue_new(&s->q, s->setting);

	if (r >= 0 || s->setting.backend == BACKEND_THREADS)
		return r;
	/* It worked when it was tried: memory or a limit. Threads can always go on. */
	s->l->ring = -1;
	s->setting.backend = BACKEND_THREADS;
	setting_publish(s->l, s->setting);
	s->lanes = 1;
	return queue_new(&s->q, s->setting);
}

static void *thread_main(void *userdata)
{
	struct lane_thread *t = userdata;
	struct epoch s;

	t->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	while (epoch_wait(t, &s)) {
		if (queue_for(&s) < 0) {
			(void)usleep(RETRY_USEC);
			continue;
		}
		epoch_work(&s);
		queue_free(s.q);
	}
	return NULL;
}

/* Starts the threads that a setting needs. Returns 0 if at least one runs. */
static int threads_start(struct lanes *l, struct setting s)
{
	unsigned want = s.backend == BACKEND_URING ? 1 : MIN(s.lanes, l->job->profile.lanes_max);
	int r = 0;

	while (l->n_threads < want && r == 0) {
		struct lane_thread *t = &l->threads[l->n_threads];

		*t = (struct lane_thread){ .lanes = l, .schedstat_fd = -1 };
		r = thread_start(&t->thread, thread_main, t);
		l->n_threads += r == 0;
	}
	return l->n_threads > 0 ? 0 : r;
}

/* ---- the caller's thread: begins alone, starts threads, tunes them and reports ----------------
 */

static void setting_apply(struct lanes *l, struct setting s)
{
	if (setting_pack(s) == atomic_load(&l->tasks.setting))
		return;
	(void)threads_start(l, s);
	if (s.backend == BACKEND_THREADS)
		s.lanes = MIN(s.lanes, MAX(l->n_threads, 1U));
	setting_publish(l, s);
}

/* One lane: what it reads is one request at a time, as any process's. More of them gain what other
 * programs lose. */
static void spare_foreign_io(struct lanes *l)
{
	struct setting s = tasks_setting(&l->tasks);

	if (s.lanes == 1)
		return;
	debug_log("lanes: 1 instead of %u: the pace spares other processes' reads", s.lanes);
	s.lanes = 1;
	setting_apply(l, s);
}

/* How busy the lanes are: CPU time used, and time spent ready to run while other threads had the
 * CPU, the second number of schedstat, proc(5). A lane that cannot compute because the machine is
 * busy is not one that waits for a disk. */
static void gauge(const struct lanes *l, struct tuner_sample *s)
{
	struct timeval used;
	struct rusage ru;

	if (getrusage(RUSAGE_SELF, &ru) < 0)
		return;
	timeradd(&ru.ru_utime, &ru.ru_stime, &used);
	s->cpu_usec = (uint64_t)used.tv_sec * USEC_PER_SEC + (uint64_t)used.tv_usec;
	s->reads = (uint64_t)ru.ru_inblock;
	for (unsigned i = 0; i < l->n_threads; i++) {
		uint64_t delayed_nsec;
		char buf[96] = "";

		if (pread(l->threads[i].schedstat_fd, buf, sizeof(buf) - 1, 0) > 0 &&
		    sscanf(buf, "%*u %" SCNu64, &delayed_nsec) == 1)
			s->cpu_usec += delayed_nsec / 1000;
	}
}

/* Setting a ring up takes longer than deleting a small tree, so it is tried when the first one is
 * wanted. */
static bool ring_usable(struct lanes *l)
{
	if (l->ring == 0)
		l->ring = queue_ring_usable() ? 1 : -1;
	return l->ring > 0;
}

static void tune(struct lanes *l, struct tuner *t)
{
	struct setting next, before = tasks_setting(&l->tasks);
	struct tuner_sample s = { .now_usec = now_usec(), .starved = true };
	struct stats st;

	if (job_paced(l->job)) {
		spare_foreign_io(l);
		(void)tuner_next(t, &s); /* nothing is to be learnt from this */
		return;
	}
	/* A look at each thread takes longer than anything else here. */
	if (atomic_load(&l->tasks.idle) == 0) {
		job_stats(l->job, &st);
		gauge(l, &s);
		s.starved = false;
		s.entries = st.entries + st.errors;
		s.ops = stat_get(&l->job->ops);
		s.op_usec = stat_get(&l->job->op_usec);
	}
	tuner_bound(t, job_op_latency(l->job));
	next = tuner_next(t, &s);
	if (next.backend == BACKEND_URING && !ring_usable(l))
		next = tuner_without_ring(t);
	if (setting_pack(next) != setting_pack(before))
		debug_log("lanes: %u on %s instead of %u on %s: %s (best so far %.0f entries/s, "
			  "%" PRIu64 " entries removed, %u CPUs)",
			  next.lanes, backend_name(next.backend), before.lanes,
			  backend_name(before.backend),
			  t->why ? t->why : "the pace has no limits any more", t->best_rate,
			  s.entries, l->cpus);
	setting_apply(l, next);
}

/* Sleeps so long or until the work is done. Returns whether it is. */
static bool tick(struct lanes *l, uint64_t usec)
{
	bool done;

	pthread_mutex_lock(&l->tasks.lock);
	if (!l->done)
		cond_wait_until(&l->ended, &l->tasks.lock, now_usec() + usec);
	done = l->done;
	pthread_mutex_unlock(&l->tasks.lock);
	return done;
}

/* Begins the work on this thread, alone, and leaves what takes longer to threads. */
static void try_alone(struct lanes *l, uint64_t until)
{
	struct queue *q = NULL;
	struct batch *b = NULL;

	if (tasks_setting(&l->tasks).backend == BACKEND_URING || l->job->pace ||
	    l->job->profile.same_thread || queue_new(&q, tasks_setting(&l->tasks)) < 0)
		return;
	while (!b && now_usec() < until) {
		struct walker *w;

		pthread_mutex_lock(&l->tasks.lock);
		w = claim(l);
		pthread_mutex_unlock(&l->tasks.lock);
		if (!w)
			break;
		while ((b = walker_step(w)) && b->n <= TRY_ENTRIES && now_usec() < until) {
			queue_submit(q, b);
			(void)queue_wait(q);
		}
		give_back(l, w, /* parked= */ b != NULL);
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

static void tuner_start(struct lanes *l, struct tuner *t)
{
	const struct engine_job *j = l->job;
	struct setting start = tasks_setting(&l->tasks);

	tuner_begin(t,
		    &(struct tuner_options){
			    .start = start,
			    .lanes_max = j->profile.lanes_max,
			    .cpus = l->cpus,
			    .fixed_backend = j->o.fixed_backend,
			    .fixed_lanes = j->o.lanes != 0,
			    .remote = j->profile.remote,
			    .op_usec = job_op_latency(j),
			    .filesystem = j->dev,
			    .uring_possible = true, /* until one is wanted, see ring_usable */
		    },
		    now_usec());
	if (l->done || setting_pack(t->now) == setting_pack(start))
		return;
	if (t->now.backend == BACKEND_URING && !ring_usable(l))
		(void)tuner_without_ring(t);
	debug_log("lanes: %u on %s at once: as the run before found out", t->now.lanes,
		  backend_name(t->now.backend));
	setting_apply(l, t->now);
}

int lanes_run(struct lanes *l)
{
	const struct engine_job *j = l->job;
	struct tuner own = { 0 }, *t = j->o.tuner ? j->o.tuner : &own;
	int r;

	if (!l->tasks.first)
		return 0;
	tell_start(l);
	/* With one walker all tasks can be done, one after the other, whatever memory is left. */
	r = walker_new(&l->spare, l->job);
	if (r < 0)
		return r;
	try_alone(l, now_usec() + TRY_USEC);
	tuner_start(l, t);
	if (job_paced(j))
		spare_foreign_io(l);
	r = l->done ? 0 : threads_start(l, tasks_setting(&l->tasks));
	if (r < 0)
		return r;
	while (!tick(l, t->fresh && t->o.op_usec ? TICK_FIRST : TICK)) {
		tune(l, t);
		job_progress(l->job, /* last= */ false);
	}
	for (unsigned i = 0; i < l->n_threads; i++) {
		pthread_join(l->threads[i].thread, NULL);
		if (l->threads[i].schedstat_fd >= 0)
			(void)close(l->threads[i].schedstat_fd);
	}
	tuner_end(t, now_usec());
	job_progress(l->job, /* last= */ true);
	return 0;
}

/* ---- beginning and end ------------------------------------------------------------------------
 */

/* The CPUs that this process may use. */
static unsigned cpus_allowed(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (unsigned)MAX(CPU_COUNT(&set), 1);
	/* There are more than fit in. */
	return (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

/* What a job begins with, as far as is known before it has been seen. */
static struct setting setting_start(const struct engine_job *j, unsigned cpus)
{
	const struct fs_profile *w = &j->profile;
	unsigned lanes = w->lanes ? w->lanes : cpus;

	/* What an operation takes alone has to be seen first. */
	if (w->server && j->o.op_latency_usec)
		lanes = 1;
	return (struct setting){ .backend = j->o.fixed_backend ? j->o.backend : BACKEND_THREADS,
				 .lanes = j->o.lanes ? j->o.lanes : MIN(lanes, w->lanes_max) };
}

int lanes_new(struct lanes **ret, struct engine_job *j)
{
	struct lanes *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->threads = calloc(j->profile.lanes_max, sizeof(*l->threads));
	if (!l->threads) {
		free(l);
		return -ENOMEM;
	}
	l->job = j;
	l->cpus = cpus_allowed();
	tasks_init(&l->tasks, j, setting_start(j, l->cpus));
	pthread_cond_init(&l->ended, NULL);
	j->tasks = &l->tasks;
	*ret = l;
	return 0;
}

struct lanes *lanes_free(struct lanes *l)
{
	struct task *t;

	if (!l)
		return NULL;
	while ((t = tasks_take(&l->tasks))) {
		if (t->roots)
			dirlist_done(t->roots);
		free(t->roots);
		atomic_store(&t->node->failed, true);
		node_put(l->job, t->node);
		free(t);
	}
	while (l->spare)
		walker_free(walker_pop(&l->spare));
	tasks_done(&l->tasks);
	pthread_cond_destroy(&l->ended);
	free(l->threads);
	free(l);
	return NULL;
}
