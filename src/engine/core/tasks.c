/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tasks.h"

#include <assert.h>
#include <string.h>

#include "base/macros.h"
#include "base/thread.h"
#include "batch.h"
#include "engine-job.h"

/* From this cost of one entry on, freeing it (outside the parent's lock) outweighs finding it
 * (under the lock), and lanes of one directory gain from each other: an empty file costs 2 to 30 µs
 * on any local filesystem, 64 MiB of cached pages some milliseconds. */
#define EXPENSIVE_ENTRY_USEC 300

/* How often a lane that waits for its turn looks for a cancellation, and for more turns. */
#define TURN_USEC (5 * USEC_PER_MSEC)

void tasks_init(struct tasks *q, struct engine_job *j, struct setting start)
{
	q->job = j;
	q->tail = &q->first;
	atomic_store(&q->setting, setting_pack(start));
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->wake, NULL);
	pthread_mutex_init(&q->turns_lock, NULL);
	pthread_cond_init(&q->turn, NULL);
}

void tasks_done(struct tasks *q)
{
	assert(!q->first && !q->wanted && q->turns == 0);
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->wake);
	pthread_cond_destroy(&q->turn);
	pthread_mutex_destroy(&q->turns_lock);
}

struct setting tasks_setting(const struct tasks *q)
{
	return setting_unpack(atomic_load_explicit(&q->setting, memory_order_relaxed));
}

struct task *task_of_one(struct node *n, const struct identity *pins, uint64_t pin,
			 const char *name)
{
	size_t len = sizeof(pin) + strlen(name) + 1;
	struct task *t = malloc(sizeof(*t) + len);

	if (!t)
		return NULL;
	*t = (struct task){ .node = n, .pins = pins, .n_names = 1, .len = len };
	memcpy(t->names, &pin, sizeof(pin));
	memcpy(t->names + sizeof(pin), name, len - sizeof(pin));
	return t;
}

/* Lock held. */
static void enqueue(struct tasks *q, struct task *t)
{
	t->next = NULL;
	*q->tail = t;
	q->tail = &t->next;
	atomic_fetch_add(&q->n, 1);
}

/* Takes *p, which is in the queue, out of it. Lock held. */
static struct task *dequeue(struct tasks *q, struct task **p)
{
	struct task *t = *p;
	unsigned before = atomic_fetch_sub(&q->n, 1);

	assert(before > 0);
	*p = t->next;
	if (!t->next)
		q->tail = p;
	return t;
}

void tasks_busy(struct tasks *q, unsigned lanes)
{
	unsigned before = atomic_fetch_sub(&q->idle, lanes);

	assert(before >= lanes);
}

void tasks_add(struct tasks *q, struct task *t)
{
	assert(t->node && (t->roots || t->n_names > 0));
	pthread_mutex_lock(&q->lock);
	enqueue(q, t);
	pthread_cond_broadcast(&q->wake);
	pthread_mutex_unlock(&q->lock);
}

struct task *tasks_take(struct tasks *q)
{
	return q->first ? dequeue(q, &q->first) : NULL;
}

/* A directory that is listed once more keeps its count of that, by which it comes to an end. */
static bool is_like(const struct task *t, const struct task *mine)
{
	return t->node == mine->node && t->pins == mine->pins && !t->roots && t->n_names == 1 &&
	       t->relists == 0;
}

struct task *tasks_exchange(struct tasks *q, struct task *mine)
{
	struct task *t = NULL;

	pthread_mutex_lock(&q->lock);
	for (struct task **p = &q->first; *p && !t; p = &(*p)->next)
		if (is_like(*p, mine)) {
			t = dequeue(q, p);
			enqueue(q, mine);
			break;
		}
	pthread_mutex_unlock(&q->lock);
	return t;
}

unsigned tasks_wanted(const struct tasks *q)
{
	unsigned lanes = tasks_setting(q).lanes;
	unsigned idle = atomic_load_explicit(&q->idle, memory_order_relaxed);
	unsigned queued = tasks_queued(q);

	/* A walker shares between batches, and behind a server one takes long: lanes that come
	 * meanwhile find what is queued already. Where other hosts may take it, only few: what is
	 * queued is not given away. */
	unsigned ahead = !q->job->profile.server ? lanes / 2
			 : q->job->o.give        ? (lanes + 3) / 4
						 : q->job->profile.lanes_max;

	if (lanes < 2 && !q->job->profile.server)
		return 0;
	return idle + ahead > queued ? idle + ahead - queued : 0;
}

unsigned tasks_queued(const struct tasks *q)
{
	return atomic_load_explicit(&q->n, memory_order_relaxed);
}

/* ---- help in a batch --------------------------------------------------------------------------
 */

bool tasks_offer(struct tasks *q, struct batch *b, uint64_t usec_per_entry)
{
	if (q->job->profile.dir_lanes < 2 && usec_per_entry < EXPENSIVE_ENTRY_USEC)
		return false;
	/* The parent's lock is held while the server thinks. */
	if (q->job->profile.server)
		return false;
	/* An order that must be kept is kept by one lane: a second one in the same directory saved
	 * no time and trimmed ten times as much (60,000 files of 32 KiB on ext4 with discard). */
	if (q->job->profile.ascending || atomic_load(&q->idle) == 0)
		return false;
	if (b->n - MIN(atomic_load(&b->next), b->n) < 2)
		return false;
	/* A helper finds it offered already: it is on the list once, until its owner takes it back.
	 */
	if (atomic_exchange(&b->offered, true))
		return true;
	pthread_mutex_lock(&q->lock);
	b->next_wanted = q->wanted;
	q->wanted = b;
	pthread_cond_broadcast(&q->wake);
	pthread_mutex_unlock(&q->lock);
	return true;
}

struct batch *tasks_help_begin(struct tasks *q)
{
	struct batch *b = q->wanted;

	while (b && atomic_load(&b->next) >= b->n)
		b = b->next_wanted;
	if (b)
		atomic_fetch_add(&b->workers, 1);
	return b;
}

void tasks_help_end(struct tasks *q, struct batch *b)
{
	unsigned before = atomic_fetch_sub(&b->workers, 1);

	assert(before > 0);
	if (before == 1)
		pthread_cond_broadcast(&q->wake);
}

void tasks_settle(struct tasks *q, struct batch *b)
{
	if (!atomic_load(&b->offered))
		return;
	pthread_mutex_lock(&q->lock);
	for (struct batch **p = &q->wanted; *p; p = &(*p)->next_wanted)
		if (*p == b) {
			*p = b->next_wanted;
			break;
		}
	while (atomic_load(&b->workers) > 0)
		pthread_cond_wait(&q->wake, &q->lock);
	pthread_mutex_unlock(&q->lock);
}

/* ---- turns behind a server --------------------------------------------------------------------
 */

bool tasks_turn_begin(struct tasks *q)
{
	bool mine;

	pthread_mutex_lock(&q->turns_lock);
	while (q->turns >= tasks_setting(q).lanes && !job_cancelled(q->job))
		cond_wait_until(&q->turn, &q->turns_lock, now_usec() + TURN_USEC);
	mine = !job_cancelled(q->job);
	q->turns += mine;
	pthread_mutex_unlock(&q->turns_lock);
	return mine;
}

void tasks_turn_end(struct tasks *q)
{
	pthread_mutex_lock(&q->turns_lock);
	assert(q->turns > 0);
	q->turns--;
	pthread_cond_signal(&q->turn);
	pthread_mutex_unlock(&q->turns_lock);
}
