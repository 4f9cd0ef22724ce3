/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "store-queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "store-internal.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/thread.h"

/* A transaction takes in what is posted for this long: with more, the first to be posted would wait
 * for the last; with less, a disk with slow flushes would do little else. */
#define BATCH_USEC (10 * USEC_PER_MSEC)

struct store_task {
	STAILQ_ENTRY(store_task) next;
	store_work_t work;
	store_done_t done;
	void *userdata;
	int r;
	bool reads, accepts;
	bool part;  /* need not be durable before more is */
	bool again; /* was missed */
};

/* First in, first out. */
STAILQ_HEAD(store_tasks, store_task);

struct store_queue {
	struct store *store; /* the thread's alone while it runs */
	pthread_t thread;
	pthread_mutex_t lock; /* over all that follows */
	pthread_cond_t posted_some, idle;
	struct store_tasks posted, answered;
	bool working, ending;
	int fd;
};

static struct store_task *tasks_take(struct store_tasks *t)
{
	struct store_task *task = STAILQ_FIRST(t);

	if (task)
		STAILQ_REMOVE_HEAD(t, next);
	return task;
}

static void answer(struct store_queue *q, struct store_tasks *answers)
{
	uint64_t one = 1;

	pthread_mutex_lock(&q->lock);
	STAILQ_CONCAT(&q->answered, answers);
	pthread_mutex_unlock(&q->lock);
	/* It cannot fail but when the counter is full, and then the loop knows. */
	if (write(q->fd, &one, sizeof(one)) < 0)
		return;
}

static int task_do(struct store *s, struct store_task *t)
{
	/* The rest of the room is for the ends of what was accepted before. */
	if (t->accepts && store_is_short(s))
		return -ENOSPC;
	return t->reads ? t->work(s, t->userdata) : store_part(s, t->work, t->userdata);
}

/* What was undone with its transaction and has to be done all the same. What accepts is refused,
 * and what reads has had its rows. */
static bool is_missed(const struct store_task *t)
{
	return t->r == -ENOSPC && !t->reads && !t->accepts;
}

static bool is_refused(const struct store_task *t)
{
	return t->r == -ENOSPC && t->accepts;
}

static bool any(const struct store_tasks *batch, bool (*is)(const struct store_task *t))
{
	const struct store_task *t;

	STAILQ_FOREACH(t, batch, next)
		if (is(t))
			return true;
	return false;
}

/* Ends the transaction of a batch: what is not durable has failed. */
static void commit(struct store_queue *q, struct store_tasks *batch, bool again)
{
	struct store_task *t;
	int r = store_commit(q->store);

	STAILQ_FOREACH(t, batch, next)
		if (r < 0 && t->r >= 0 && (t->again || !again))
			t->r = r;
}

/* Once more, with room made for it. */
static void do_missed(struct store_queue *q, struct store_tasks *batch)
{
	struct store_task *t;

	if (store_begin(q->store) < 0)
		return;
	STAILQ_FOREACH(t, batch, next) {
		t->again = is_missed(t);
		if (t->again)
			t->r = task_do(q->store, t);
	}
	commit(q, batch, /* again= */ true);
}

/* Takes tasks off the list: those that only read, up to the first that writes; then as many as one
 * transaction holds. What reads behind a write in the same transaction sees it, so it fails with
 * it. */
static void work_off(struct store_queue *q, struct store_tasks *list)
{
	struct store_tasks batch = STAILQ_HEAD_INITIALIZER(batch);
	struct store_task *t;
	uint64_t begun;
	bool parts;
	int r;

	while (!STAILQ_EMPTY(list) && STAILQ_FIRST(list)->reads) {
		t = tasks_take(list);
		t->r = t->work(q->store, t->userdata);
		STAILQ_INSERT_TAIL(&batch, t, next);
		answer(q, &batch);
	}
	if (STAILQ_EMPTY(list))
		return;
	store_room_check(q->store);
	begun = now_usec();
	/* If it has to be durable all the same, that is no harm. */
	parts = STAILQ_FIRST(list)->part && store_set_durable(q->store, false) >= 0;
	r = parts ? 0 : store_set_durable(q->store, true);
	if (r >= 0)
		r = store_begin(q->store);
	do {
		t = tasks_take(list);
		t->r = r < 0 ? r : task_do(q->store, t);
		STAILQ_INSERT_TAIL(&batch, t, next);
	} while (!STAILQ_EMPTY(list) && (!parts || STAILQ_FIRST(list)->part) &&
		 now_usec() - begun < BATCH_USEC);
	if (r == 0)
		commit(q, &batch, /* again= */ false);
	for (unsigned i = 0; any(&batch, is_missed) && store_room_make(q->store, i); i++)
		do_missed(q, &batch);
	/* The next may have better luck. */
	if (any(&batch, is_refused))
		(void)store_room_make(q->store, 0);
	answer(q, &batch);
}

static void *thread_main(void *arg)
{
	struct store_queue *q = arg;
	struct store_tasks list = STAILQ_HEAD_INITIALIZER(list);

	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (STAILQ_EMPTY(&q->posted) && !q->ending) {
			q->working = false;
			pthread_cond_broadcast(&q->idle);
			pthread_cond_wait(&q->posted_some, &q->lock);
		}
		if (STAILQ_EMPTY(&q->posted))
			break;
		q->working = true;
		STAILQ_CONCAT(&list, &q->posted);
		pthread_mutex_unlock(&q->lock);
		while (!STAILQ_EMPTY(&list))
			work_off(q, &list);
		pthread_mutex_lock(&q->lock);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

int store_queue_new(struct store_queue **ret, struct store *s)
{
	struct store_queue *q = calloc(1, sizeof(*q));
	int r;

	if (!q)
		return -ENOMEM;
	q->store = s;
	STAILQ_INIT(&q->posted);
	STAILQ_INIT(&q->answered);
	(void)pthread_mutex_init(&q->lock, NULL);
	(void)pthread_cond_init(&q->posted_some, NULL);
	(void)pthread_cond_init(&q->idle, NULL);
	q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = q->fd < 0 ? -errno : thread_start(&q->thread, thread_main, q);
	if (r < 0) {
		fd_closep(&q->fd);
		free(q);
		return r;
	}
	*ret = q;
	return 0;
}

/* Waits until nothing is posted or worked on. Returns whether there are answers. */
static bool drain(struct store_queue *q)
{
	bool some;

	pthread_mutex_lock(&q->lock);
	while (!STAILQ_EMPTY(&q->posted) || q->working)
		pthread_cond_wait(&q->idle, &q->lock);
	some = !STAILQ_EMPTY(&q->answered);
	pthread_mutex_unlock(&q->lock);
	return some;
}

struct store_queue *store_queue_free(struct store_queue *q)
{
	if (!q)
		return NULL;
	/* An answer may have more to be posted. */
	while (drain(q))
		store_queue_dispatch(q);
	pthread_mutex_lock(&q->lock);
	q->ending = true;
	pthread_cond_signal(&q->posted_some);
	pthread_mutex_unlock(&q->lock);
	(void)pthread_join(q->thread, NULL);
	store_close(q->store);
	(void)pthread_cond_destroy(&q->idle);
	(void)pthread_cond_destroy(&q->posted_some);
	(void)pthread_mutex_destroy(&q->lock);
	fd_closep(&q->fd);
	free(q);
	return NULL;
}

int store_queue_fd(const struct store_queue *q)
{
	return q->fd;
}

void store_queue_dispatch(struct store_queue *q)
{
	struct store_tasks answers = STAILQ_HEAD_INITIALIZER(answers);
	struct store_task *t;
	uint64_t n;

	if (read(q->fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return;
	pthread_mutex_lock(&q->lock);
	STAILQ_CONCAT(&answers, &q->answered);
	pthread_mutex_unlock(&q->lock);
	while ((t = tasks_take(&answers))) {
		if (t->done)
			t->done(t->r, t->userdata);
		free(t);
	}
}

static int post(struct store_queue *q, struct store_task task)
{
	struct store_task *t = malloc(sizeof(*t));

	if (!t)
		return -ENOMEM;
	*t = task;
	pthread_mutex_lock(&q->lock);
	assert(!q->ending);
	STAILQ_INSERT_TAIL(&q->posted, t, next);
	pthread_cond_signal(&q->posted_some);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

int store_queue_post(struct store_queue *q, store_work_t work, store_done_t done, void *userdata)
{
	return post(q, (struct store_task){ .work = work, .done = done, .userdata = userdata });
}

int store_queue_accept(struct store_queue *q, store_work_t work, store_done_t done, void *userdata)
{
	return post(q, (struct store_task){
			       .work = work, .done = done, .userdata = userdata, .accepts = true });
}

int store_queue_accept_part(struct store_queue *q, store_work_t work, store_done_t done,
			    void *userdata)
{
	return post(q, (struct store_task){ .work = work,
					    .done = done,
					    .userdata = userdata,
					    .accepts = true,
					    .part = true });
}

int store_queue_read(struct store_queue *q, store_work_t work, store_done_t done, void *userdata)
{
	return post(q, (struct store_task){
			       .work = work, .done = done, .userdata = userdata, .reads = true });
}
