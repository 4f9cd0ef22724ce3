/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/core/batch.h"
#include "lanes-state.h"
#include "engine/core/engine-job.h"
#include "engine/walk/node.h"
#include "engine/remove/queue.h"
#include "base/macros.h"
#include "engine/walk/walker.h"

/* From this cost of one entry on, freeing it (outside the parent's lock) outweighs finding it
 * (under the lock), and lanes of one directory gain from each other: an empty file costs 2 to 30 µs
 * on any local filesystem, 64 MiB of cached pages some milliseconds. */
#define DEAR_ENTRY 300

/* How often a lane that waits for its turn looks for a cancellation, and for more turns. */
#define TURN_USEC (5 * USEC_PER_MSEC)

unsigned setting_pack(struct setting s)
{
	return s.lanes << 1 | (s.backend == BACKEND_URING);
}

struct setting crew_setting_now(const struct crew *c)
{
	unsigned p = atomic_load_explicit(&c->setting, memory_order_relaxed);

	return (struct setting){ .backend = p & 1 ? BACKEND_URING : BACKEND_THREADS,
				 .lanes = p >> 1 };
}

void crew_setting(const struct crew *c, enum backend *ret_backend, unsigned *ret_lanes)
{
	struct setting s = crew_setting_now(c);

	*ret_backend = s.backend;
	*ret_lanes = s.lanes;
}

unsigned crew_cpus(void)
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

	/* What an operation takes alone has to be seen first. */
	if (w->server && j->o.op_latency_usec)
		lanes = 1;
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
	c->cpus = crew_cpus();
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
	pthread_mutex_init(&c->turns_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->ended, &attr);
	pthread_cond_init(&c->turn, &attr);
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
	pthread_cond_destroy(&c->turn);
	pthread_mutex_destroy(&c->turns_lock);
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

/* A directory that is listed once more keeps its count of that, by which it comes to an end. */
static bool is_like(const struct task *t, const struct task *mine)
{
	return t->node == mine->node && t->pins == mine->pins && !t->roots && t->n_names == 1 &&
	       t->relists == 0;
}

struct task *crew_exchange(struct crew *c, struct task *mine)
{
	struct task *t = NULL;

	pthread_mutex_lock(&c->lock);
	for (struct task **p = &c->tasks; *p && !t; p = &(*p)->next)
		if (is_like(*p, mine)) {
			t = dequeue(c, p);
			enqueue(c, mine);
			break;
		}
	pthread_mutex_unlock(&c->lock);
	return t;
}

struct task *crew_tasks(struct crew *c)
{
	return c->tasks;
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
	unsigned lanes = crew_setting_now(c).lanes;
	unsigned idle = atomic_load_explicit(&c->idle, memory_order_relaxed);
	unsigned queued = atomic_load_explicit(&c->n_tasks, memory_order_relaxed);

	/* A walker shares between batches, and behind a server one takes long: lanes that come
	 * meanwhile find what is queued already. */
	unsigned ahead = c->job->ways.server ? c->max_drivers : lanes / 2;

	if (lanes < 2 && !c->job->ways.server)
		return 0;
	return idle + ahead > queued ? idle + ahead - queued : 0;
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
	/* The parent's lock is held while the server thinks. */
	if (b->job->ways.server)
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

bool crew_turn_begin(struct crew *c)
{
	struct timespec until;
	bool mine;

	pthread_mutex_lock(&c->turns_lock);
	while (c->turns >= crew_setting_now(c).lanes && !job_cancelled(c->job)) {
		(void)clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += TURN_USEC * 1000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		(void)pthread_cond_timedwait(&c->turn, &c->turns_lock, &until);
	}
	mine = !job_cancelled(c->job);
	c->turns += mine;
	pthread_mutex_unlock(&c->turns_lock);
	return mine;
}

void crew_turn_end(struct crew *c)
{
	pthread_mutex_lock(&c->turns_lock);
	c->turns--;
	pthread_cond_signal(&c->turn);
	pthread_mutex_unlock(&c->turns_lock);
}

bool crew_help(struct crew *c)
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

struct walker *crew_take(struct crew *c, struct batch **ret_batch)
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

void crew_release(struct crew *c, struct walker *w)
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

void crew_park(struct crew *c, struct queue *q, struct walker *w, struct batch *b)
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
	crew_release(c, w);
}
