/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "crew.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "batch.h"
#include "gauge.h"
#include "job.h"
#include "node.h"
#include "queue.h"
#include "tuner.h"
#include "util/macros.h"
#include "walker.h"

/* How often the caller's thread looks, tunes and reports. */
#define TICK (10 * USEC_PER_MSEC)
#define PROGRESS_EVERY (100 * USEC_PER_MSEC)

/* From this cost of one entry on, freeing it (outside the parent's lock) outweighs finding it
 * (under the lock), and lanes of one directory gain from each other: an empty file costs 2 to 30 µs
 * on any local filesystem, 64 MiB of cached pages some milliseconds. */
#define DEAR_ENTRY 300

/* Threads take some 150 µs to start and to end. A tree that is gone sooner is deleted by the
 * caller's thread; so many entries at a time at most, in case each of them takes a disk's time:
 * nobody tunes or reports meanwhile. */
#define TRY_USEC 500
#define TRY_ENTRIES 32

struct driver {
	struct crew *crew;
	pthread_t thread;
	unsigned index;
};

struct parked {
	struct parked *next;
	struct walker *walker;
	struct batch *batch; /* to be performed next, or NULL */
};

struct crew {
	struct job *job;
	pthread_mutex_t lock;
	pthread_cond_t wake;  /* work, a new setting, the end, or a batch without helpers */
	pthread_cond_t ended; /* for the caller of crew_run alone */
	struct task *tasks, **tasks_tail;
	struct parked *parked;
	struct batch *wanted;     /* batches that want help */
	_Atomic unsigned n_tasks; /* queued and not taken */
	_Atomic unsigned idle;    /* lanes of active drivers without a walker */
	unsigned n_walkers;       /* at work or parked */
	_Atomic unsigned setting; /* packed: backend and lanes */
	bool done;
	bool ring_tried;
	_Atomic int ring_error; /* why there is no ring */
	struct walker *spare;   /* walkers without a task, to be used again */
	struct driver *drivers;
	gauge_t *gauges; /* one per driver */
	unsigned n_drivers, max_drivers, cpus;
};

static unsigned setting_pack(struct setting s)
{
	return s.lanes << 1 | (s.backend == BACKEND_URING);
}

static struct setting setting_now(const struct crew *c)
{
	unsigned p = atomic_load_explicit(&c->setting, memory_order_relaxed);

	return (struct setting){ .backend = p & 1 ? BACKEND_URING : BACKEND_THREADS,
				 .lanes = p >> 1 };
}

void crew_setting(const struct crew *c, enum backend *ret_backend, unsigned *ret_lanes)
{
	struct setting s = setting_now(c);

	*ret_backend = s.backend;
	*ret_lanes = s.lanes;
}

/* The lanes that driver `index` runs under a setting. */
static unsigned lanes_of(struct setting s, unsigned index)
{
	if (s.backend == BACKEND_URING)
		return index == 0 ? s.lanes : 0;
	return index < s.lanes ? 1 : 0;
}

/* The CPUs that this process may use. */
static unsigned cpus_usable(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (unsigned)MAX(CPU_COUNT(&set), 1);
	/* There are more than fit in. */
	return (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

/* What a job begins with, as far as is known before it has been seen. */
static struct setting setting_start(const struct job *j, unsigned cpus)
{
	const struct ways *w = &j->ways;
	unsigned lanes = w->lanes ? w->lanes : cpus;

	return (struct setting){ .backend = j->o.fixed_backend ? j->o.backend : w->start,
				 .lanes = j->o.lanes ? j->o.lanes : MIN(lanes, w->lanes_max) };
}

int crew_new(struct crew **ret, struct job *j)
{
	struct crew *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;

	if (!c)
		return -ENOMEM;
	c->job = j;
	c->cpus = cpus_usable();
	atomic_store(&c->setting, setting_pack(setting_start(j, c->cpus)));
	c->tasks_tail = &c->tasks;
	c->max_drivers = j->ways.lanes_max;
	c->drivers = calloc(c->max_drivers, sizeof(*c->drivers));
	c->gauges = malloc(c->max_drivers * sizeof(*c->gauges));
	if (!c->drivers || !c->gauges) {
		free(c->drivers);
		free(c->gauges);
		free(c);
		return -ENOMEM;
	}
	memset(c->gauges, -1, c->max_drivers * sizeof(*c->gauges));
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->wake, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->ended, &attr);
	pthread_condattr_destroy(&attr);
	*ret = c;
	return 0;
}

struct crew *crew_free(struct crew *c)
{
	if (!c)
		return NULL;
	while (c->tasks) {
		struct task *t = c->tasks;

		c->tasks = t->next;
		if (t->roots)
			dirlist_done(t->roots);
		free(t->roots);
		atomic_store(&t->node->failed, true);
		node_put(c->job, t->node);
		free(t);
	}
	while (c->spare) {
		struct walker *w = c->spare;

		c->spare = walker_unlink(w);
		walker_free(w);
	}
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->wake);
	pthread_cond_destroy(&c->ended);
	free(c->drivers);
	free(c->gauges);
	free(c);
	return NULL;
}

/* Lock held. */
static void enqueue(struct crew *c, struct task *t)
{
	t->next = NULL;
	*c->tasks_tail = t;
	c->tasks_tail = &t->next;
	atomic_fetch_add(&c->n_tasks, 1);
}

/* Takes *p, which is in the queue, out of it. Lock held. */
static struct task *dequeue(struct crew *c, struct task **p)
{
	struct task *t = *p;

	*p = t->next;
	if (!t->next)
		c->tasks_tail = p;
	atomic_fetch_sub(&c->n_tasks, 1);
	return t;
}

struct task *crew_exchange(struct crew *c, struct task *mine)
{
	struct task *t = NULL;

	pthread_mutex_lock(&c->lock);
	for (struct task **p = &c->tasks; *p && !t; p = &(*p)->next)
		if ((*p)->node == mine->node && !(*p)->roots && (*p)->n_names == 1) {
			t = dequeue(c, p);
			enqueue(c, mine);
			break;
		}
	pthread_mutex_unlock(&c->lock);
	return t;
}

void crew_add(struct crew *c, struct task *t)
{
	pthread_mutex_lock(&c->lock);
	enqueue(c, t);
	pthread_cond_broadcast(&c->wake);
	pthread_mutex_unlock(&c->lock);
}

unsigned crew_wants(struct crew *c)
{
	unsigned lanes = setting_now(c).lanes;
	unsigned idle = atomic_load_explicit(&c->idle, memory_order_relaxed);
	unsigned queued = atomic_load_explicit(&c->n_tasks, memory_order_relaxed);

	if (lanes < 2)
		return 0;
	return idle + lanes / 2 > queued ? idle + lanes / 2 - queued : 0;
}

unsigned crew_queued(struct crew *c)
{
	return atomic_load_explicit(&c->n_tasks, memory_order_relaxed);
}

int crew_relist(struct crew *c, const struct node *n)
{
	size_t len = strlen(n->name) + 1;
	struct task *t = calloc(1, sizeof(*t) + sizeof(n->pin) + len);

	if (!t)
		return -ENOMEM;
	t->node = n->parent;
	t->pins = n->pins;
	t->relists = n->relists + 1;
	t->n_names = 1;
	t->len = sizeof(n->pin) + len;
	memcpy(t->names, &n->pin, sizeof(n->pin));
	memcpy(t->names + sizeof(n->pin), n->name, len);
	crew_add(c, t);
	return 0;
}

bool crew_offer(struct crew *c, struct batch *b, uint64_t usec_per_entry)
{
	if (b->job->ways.dir_lanes < 2 && usec_per_entry < DEAR_ENTRY)
		return false;
	/* An order that must be kept is kept by one lane: a second one in the same directory saved
	 * no time and trimmed ten times as much (60,000 files of 32 KiB on ext4 with discard). */
	if (b->job->ways.ascending || atomic_load(&c->idle) == 0)
		return false;
	if (b->n - MIN(atomic_load(&b->next), b->n) < 2)
		return false;
	/* A helper finds it offered already: it is on the list once, until its owner takes it back.
	 */
	if (atomic_exchange(&b->offered, true))
		return true;
	pthread_mutex_lock(&c->lock);
	b->next_wanted = c->wanted;
	c->wanted = b;
	pthread_cond_broadcast(&c->wake);
	pthread_mutex_unlock(&c->lock);
	return true;
}

void crew_settle(struct crew *c, struct batch *b)
{
	if (!atomic_load(&b->offered))
		return;
	pthread_mutex_lock(&c->lock);
	for (struct batch **p = &c->wanted; *p; p = &(*p)->next_wanted)
		if (*p == b) {
			*p = b->next_wanted;
			break;
		}
	while (atomic_load(&b->workers) > 0)
		pthread_cond_wait(&c->wake, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

/* Works on somebody else's batch, if one wants help. Called and returns with the lock held. */
static bool help(struct crew *c)
{
	struct batch *b = c->wanted;

	while (b && atomic_load(&b->next) >= b->n)
		b = b->next_wanted;
	if (!b)
		return false;
	atomic_fetch_add(&b->workers, 1);
	atomic_fetch_sub(&c->idle, 1);
	pthread_mutex_unlock(&c->lock);
	batch_work(b);
	pthread_mutex_lock(&c->lock);
	atomic_fetch_add(&c->idle, 1);
	if (atomic_fetch_sub(&b->workers, 1) == 1)
		pthread_cond_broadcast(&c->wake);
	return true;
}

/* Takes a walker that has something to do: a parked one, or a new one on the next task. *ret_batch
 * is its batch if it was parked with one. Lock held. */
static struct walker *take(struct crew *c, struct batch **ret_batch)
{
	struct parked *p = c->parked;
	struct task *t = c->tasks;
	struct walker *w = NULL;

	*ret_batch = NULL;
	if (p) {
		c->parked = p->next;
		w = p->walker;
		*ret_batch = p->batch;
		free(p);
		return w;
	}
	if (!t)
		return NULL;
	w = c->spare;
	if (w)
		c->spare = walker_unlink(w);
	else if (walker_new(&w, c->job) < 0)
		return NULL;
	walker_begin(w, dequeue(c, &c->tasks));
	c->n_walkers++;
	return w;
}

/* A walker's task is done. */
static void release(struct crew *c, struct walker *w)
{
	pthread_mutex_lock(&c->lock);
	walker_link(w, c->spare);
	c->spare = w;
	c->n_walkers--;
	if (c->n_walkers == 0 && !c->tasks) {
		c->done = true;
		pthread_cond_broadcast(&c->wake);
		pthread_cond_broadcast(&c->ended);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Puts a walker aside for another driver. If memory is out it is driven to its end right here. */
static void park(struct crew *c, struct queue *q, struct walker *w, struct batch *b)
{
	struct parked *p = malloc(sizeof(*p));

	if (p) {
		pthread_mutex_lock(&c->lock);
		*p = (struct parked){ .next = c->parked, .walker = w, .batch = b };
		c->parked = p;
		pthread_cond_broadcast(&c->wake);
		pthread_mutex_unlock(&c->lock);
		return;
	}
	for (; b; b = walker_step(w)) {
		queue_submit(q, b);
		(void)queue_wait(q);
	}
	release(c, w);
}

/* One driver at work under one setting. */
struct shift {
	struct crew *c;
	struct queue *q;
	struct setting setting;
	unsigned index, lanes, walkers;
};

static bool shift_over(const struct shift *s)
{
	return atomic_load_explicit(&s->c->setting, memory_order_relaxed) !=
	       setting_pack(s->setting);
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
	release(s->c, w);
}

/* Fills free lanes. Waits for work if there is nothing else to do. False when the shift is over. */
static bool hire(struct shift *s)
{
	struct crew *c = s->c;

	while (s->walkers < s->lanes && !shift_over(s)) {
		struct batch *b = NULL;
		struct walker *w;

		pthread_mutex_lock(&c->lock);
		w = take(c, &b);
		while (!w && s->walkers == 0 && !c->done && !shift_over(s)) {
			if (s->setting.backend == BACKEND_URING || !help(c))
				pthread_cond_wait(&c->wake, &c->lock);
			w = take(c, &b);
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

			s->walkers--;
			atomic_fetch_add(&s->c->idle, 1);
			if (next)
				park(s->c, s->q, w, next);
			else
				release(s->c, w);
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
	while (!c->done && lanes_of(setting_now(c), d->index) == 0)
		pthread_cond_wait(&c->wake, &c->lock);
	more = !c->done;
	*ret = (struct shift){ .c = c, .index = d->index, .setting = setting_now(c) };
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

	__atomic_store_n(&d->crew->gauges[d->index], gauge_open(), __ATOMIC_RELAXED);
	while (driver_wait(d, &s)) {
		if (queue_for(d, &s) < 0) {
			(void)usleep(TICK); /* out of memory: others may give some back */
			continue;
		}
		shift_work(&s);
		queue_free(s.q);
	}
	return NULL;
}

/* Starts the drivers that a setting needs. Returns 0 if at least one runs. */
static int drivers_start(struct crew *c, struct setting s)
{
	unsigned want = s.backend == BACKEND_URING ? 1 : MIN(s.lanes, c->max_drivers);
	int r = 0;

	while (c->n_drivers < want && r == 0) {
		struct driver *d = &c->drivers[c->n_drivers];

		*d = (struct driver){ .crew = c, .index = c->n_drivers };
		r = pthread_create(&d->thread, NULL, driver_main, d);
		if (r == 0)
			c->n_drivers++;
	}
	return c->n_drivers > 0 ? 0 : -r;
}

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
	struct setting s = setting_now(c);

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
	struct tuner_sample s = { .now_usec = now_usec(),
				  .cpu_usec = gauge_read(c->gauges, c->n_drivers),
				  .reads = gauge_reads() };

	job_stats(c->job, &st);
	s.entries = st.entries + st.errors;
	s.starved = atomic_load(&c->idle) > 0;
	if (job_paced(c->job)) {
		spare_others(c);
		s.starved = true; /* nothing is to be learnt from this */
		(void)tuner_next(t, &s);
		return;
	}
	next = tuner_next(t, &s);
	if (next.backend == BACKEND_URING && !ring_usable(c))
		next = tuner_without_ring(t);
	setting_apply(c, next);
}

/* Sleeps for a tick or until the work is done. Returns whether it is. */
static bool tick(struct crew *c)
{
	struct timespec until;
	bool done;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += TICK * 1000;
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
		.start = setting_now(c),
		.lanes_max = w->lanes_max,
		.cpus = c->cpus,
		.fixed_backend = o->fixed_backend,
		.fixed_lanes = o->lanes != 0,
		.remote = w->remote,
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
		park(c, q, w, b);
	else
		release(c, w);
	return !b;
}

/* Begins the work on the caller's thread, alone, and leaves what takes longer to the drivers. */
static void try_alone(struct crew *c, uint64_t until)
{
	struct queue *q = NULL;
	bool more = true;

	if (setting_now(c).backend == BACKEND_URING || c->job->pace ||
	    queue_threads_new(&q, c->job) < 0)
		return;
	while (more && now_usec() < until) {
		struct walker *w;
		struct batch *b;

		pthread_mutex_lock(&c->lock);
		w = take(c, &b);
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
	try_alone(c, began + TRY_USEC);
	tuner_start(c, &t);
	if (job_paced(c->job))
		spare_others(c);
	r = c->done ? 0 : drivers_start(c, setting_now(c));
	if (r < 0)
		return r;
	while (!tick(c)) {
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
