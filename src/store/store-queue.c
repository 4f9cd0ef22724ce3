/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "store-queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store-internal.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/thread.h"

/* A transaction takes in what is posted for this long: with more, the first to be posted would wait
 * for the last; with less, a disk with slow flushes would do little else. */
#define BATCH_USEC (10 * USEC_PER_MSEC)

struct task {
	struct task *next;
	store_work_t work;
	store_done_t done;
	void *userdata;
	int r;
	bool reads, accepts;
	bool again; /* was missed */
};

/* First in, first out. */
struct tasks {
	struct task *first, **end;
};

struct store_queue {
	struct store *store; /* the thread's alone while it runs */
	pthread_t thread;
	pthread_mutex_t lock; /* over all that follows */
	pthread_cond_t posted_some, idle;
	struct tasks posted, answered;
	bool working, ending;
	int fd;
};

static void tasks_init(struct tasks *t)
{
	t->first = NULL;
	t->end = &t->first;
}

static void tasks_append(struct tasks *t, struct task *task)
{
	task->next = NULL;
	*t->end = task;
	t->end = &task->next;
}

static struct task *tasks_take(struct tasks *t)
{
	struct task *task = t->first;

	if (!task)
		return NULL;
	t->first = task->next;
	if (!t->first)
		t->end = &t->first;
	return task;
}

/* Moves all of one list to the end of the other. */
static void tasks_move(struct tasks *from, struct tasks *to)
{
	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	tasks_init(from);
}

/* Does what is asked within the transaction; if it fails, undoes it and nothing else. */
static int task_write(struct store *s, struct task *task)
{
	int e, r = store_savepoint(s);

	if (r < 0)
		return r;
	r = task->work(s, task->userdata);
	e = r < 0 ? store_savepoint_undo(s) : store_savepoint_keep(s);
	return r < 0 ? r : e < 0 ? e : r;
}

static void answer(struct store_queue *q, struct tasks *answers)
{
	uint64_t one = 1;

	pthread_mutex_lock(&q->lock);
	tasks_move(answers, &q->answered);
	pthread_mutex_unlock(&q->lock);
	/* It cannot fail but when the counter is full, and then the loop knows. */
	if (write(q->fd, &one, sizeof(one)) < 0)
		return;
}

static void commit(struct store_queue *q, struct tasks *batch)
{
	int r = store_commit(q->store);

	if (r < 0)
		for (struct task *t = batch->first; t; t = t->next)
			t->r = t->r < 0 ? t->r : r;
}

static int task_do(struct store *s, struct task *t)
{
	/* The rest of the room is for the ends of what was accepted before. */
	if (t->accepts && store_is_short(s))
		return -ENOSPC;
	return t->reads ? t->work(s, t->userdata) : task_write(s, t);
}

/* What was undone with its transaction and has to be done all the same. What accepts is refused,
 * and what reads has had its rows. */
static bool is_missed(const struct task *t)
{
	return t->r == -ENOSPC && !t->reads && !t->accepts;
}

static bool has_missed(const struct tasks *batch)
{
	const struct task *t = batch->first;

	while (t && !is_missed(t))
		t = t->next;
	return t;
}

static bool has_refused(const struct tasks *batch)
{
	const struct task *t = batch->first;

	while (t && !(t->r == -ENOSPC && t->accepts))
		t = t->next;
	return t;
}

/* Once more, with room made for it. */
static void do_missed(struct store_queue *q, struct tasks *batch)
{
	struct task *t;
	int r = store_begin(q->store);

	if (r < 0)
		return;
	for (t = batch->first; t; t = t->next)
		t->again = is_missed(t);
	for (t = batch->first; t; t = t->next)
		if (t->again)
			t->r = task_do(q->store, t);
	r = store_commit(q->store);
	for (t = batch->first; t; t = t->next)
		if (t->again && r < 0)
			t->r = t->r < 0 ? t->r : r;
}

/* Takes tasks off the list: those that only read, up to the first that writes; then as many as one
 * transaction holds. What reads behind a write in the same transaction sees it, so it shares its
 * fate. */
static void work_off(struct store_queue *q, struct tasks *list)
{
	struct tasks batch;
	struct task *t;
	uint64_t begun;
	int r;

	tasks_init(&batch);
	while (list->first && list->first->reads) {
		t = tasks_take(list);
		t->r = t->work(q->store, t->userdata);
		tasks_append(&batch, t);
		answer(q, &batch);
	}
	if (!list->first)
		return;
	store_room_look(q->store);
	begun = now_usec();
	r = store_begin(q->store);
	do {
		t = tasks_take(list);
		t->r = r < 0 ? r : task_do(q->store, t);
		tasks_append(&batch, t);
	} while (list->first && now_usec() - begun < BATCH_USEC);
	if (r == 0)
		commit(q, &batch);
	for (unsigned i = 0; has_missed(&batch) && store_room_make(q->store, i); i++)
		do_missed(q, &batch);
	/* The next may have better luck. */
	if (has_refused(&batch))
		(void)store_room_make(q->store, 0);
	answer(q, &batch);
}

static void *thread_main(void *arg)
{
	struct store_queue *q = arg;
	struct tasks list;

	tasks_init(&list);
	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (!q->posted.first && !q->ending) {
			q->working = false;
			pthread_cond_broadcast(&q->idle);
			pthread_cond_wait(&q->posted_some, &q->lock);
		}
		if (!q->posted.first)
			break;
		q->working = true;
		tasks_move(&q->posted, &list);
		pthread_mutex_unlock(&q->lock);
		while (list.first)
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
	tasks_init(&q->posted);
	tasks_init(&q->answered);
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
	while (q->posted.first || q->working)
		pthread_cond_wait(&q->idle, &q->lock);
	some = q->answered.first;
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
	struct tasks answers;
	struct task *t;
	uint64_t n;

	tasks_init(&answers);
	if (read(q->fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return;
	pthread_mutex_lock(&q->lock);
	tasks_move(&q->answered, &answers);
	pthread_mutex_unlock(&q->lock);
	while ((t = tasks_take(&answers))) {
		if (t->done)
			t->done(t->r, t->userdata);
		free(t);
	}
}

static int post(struct store_queue *q, const struct task *task)
{
	struct task *t = malloc(sizeof(*t));

	if (!t)
		return -ENOMEM;
	*t = *task;
	pthread_mutex_lock(&q->lock);
	tasks_append(&q->posted, t);
	pthread_cond_signal(&q->posted_some);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

int store_queue_post(struct store_queue *q, store_work_t work, store_done_t done, void *userdata)
{
	struct task t = { .work = work, .done = done, .userdata = userdata };

	return post(q, &t);
}

int store_queue_accept(struct store_queue *q, store_work_t work, store_done_t done, void *userdata)
{
	struct task t = { .work = work, .done = done, .userdata = userdata, .accepts = true };

	return post(q, &t);
}

int store_queue_read(struct store_queue *q, store_work_t work, store_done_t done, void *userdata)
{
	struct task t = { .work = work, .done = done, .userdata = userdata, .reads = true };

	return post(q, &t);
}
