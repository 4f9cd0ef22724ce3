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
	bool accepts;
	bool part;      /* need not be durable before more is */
	bool last;      /* see store_queue_post_last() */
	bool again;     /* was missed */
	uint64_t after; /* of a read: the number of writes that must be complete before it */
};

/* First in, first out. */
STAILQ_HEAD(store_tasks, store_task);

/* A caller whose reads wait. */
struct reading_caller {
	TAILQ_ENTRY(reading_caller) next;
	uint64_t caller;
	struct store_tasks tasks; /* at least one */
};

struct store_queue {
	struct store *store;  /* used by the writing thread alone while it runs */
	struct store *reader; /* the same for the reading thread */
	pthread_t writing_thread, reading_thread;
	pthread_mutex_t lock; /* protects all that follows */
	pthread_cond_t posted_some, may_read, idle;
	struct store_tasks posted, answered;
	uint64_t n_posted, n_written;           /* writes so far */
	struct store_tasks own_reads;           /* those of STORE_DAEMON */
	TAILQ_HEAD(, reading_caller) callers;   /* the next one to be served is the first */
	struct store_tasks answered_after_read; /* answered, but only after the read in progress */
	struct history_limits limits;
	bool limits_changed;
	bool writing, reading, ending;
	int fd;
};

static struct store_task *tasks_take(struct store_tasks *t)
{
	struct store_task *task = STAILQ_FIRST(t);

	if (task)
		STAILQ_REMOVE_HEAD(t, next);
	return task;
}

/* Wakes the loop. Fails only if the counter is full, and then the loop is awake. */
static void signal_loop(const struct store_queue *q)
{
	uint64_t one = 1;

	if (write(q->fd, &one, sizeof(one)) < 0)
		return;
}

/* Answers all tasks of a transaction. */
static void answer_batch(struct store_queue *q, struct store_tasks *batch)
{
	struct store_task *t;

	pthread_mutex_lock(&q->lock);
	while ((t = tasks_take(batch))) {
		q->n_written++;
		if (t->last && q->reading)
			STAILQ_INSERT_TAIL(&q->answered_after_read, t, next);
		else
			STAILQ_INSERT_TAIL(&q->answered, t, next);
	}
	pthread_cond_signal(&q->may_read);
	pthread_mutex_unlock(&q->lock);
	signal_loop(q);
}

static int task_do(struct store *s, struct store_task *t)
{
	/* The rest of the room is for the ends of what was accepted before. */
	if (t->accepts && store_is_short(s))
		return -ENOSPC;
	return store_part(s, t->work, t->userdata);
}

/* Returns true if the task was undone for want of space and has to be done nevertheless. */
static bool is_missed(const struct store_task *t)
{
	return t->r == -ENOSPC && !t->accepts;
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

/* Repeats some tasks of a batch after room was made for them. */
static void do_again(struct store_queue *q, struct store_tasks *batch,
		     bool (*which)(const struct store_task *t))
{
	struct store_task *t;

	if (store_begin(q->store) < 0)
		return;
	STAILQ_FOREACH(t, batch, next) {
		t->again = which(t);
		if (t->again)
			t->r = task_do(q->store, t);
	}
	commit(q, batch, /* again= */ true);
}

/* Takes as many tasks off the list as one transaction holds, and does and answers them. */
static void work_off(struct store_queue *q, struct store_tasks *list)
{
	struct store_tasks batch = STAILQ_HEAD_INITIALIZER(batch);
	struct store_task *t;
	uint64_t begun;
	bool parts;
	int r;

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
		do_again(q, &batch, is_missed);
	/* Old history makes way for new jobs. */
	while (any(&batch, is_refused) && store_history_make_room(q->store))
		do_again(q, &batch, is_refused);
	answer_batch(q, &batch);
}

/* Does a step of keeping the history within its limits. Returns true if there may be more to do. */
static bool limit_history(struct store *s)
{
	int r = store_history_step(s);

	/* Deleting takes space in the log. */
	for (unsigned i = 0; r == -ENOSPC && store_room_make(s, i); i++) {
		s->history_changed = true;
		r = store_history_step(s);
	}
	return r > 0;
}

static void *write_main(void *arg)
{
	struct store_queue *q = arg;
	struct store_tasks list = STAILQ_HEAD_INITIALIZER(list);
	bool more = false;

	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (STAILQ_EMPTY(&q->posted) && !q->limits_changed && !more && !q->ending)
			pthread_cond_wait(&q->posted_some, &q->lock);
		if (STAILQ_EMPTY(&q->posted) && q->ending)
			break;
		if (q->limits_changed)
			store_history_limit(q->store, &q->limits);
		q->limits_changed = false;
		q->writing = true;
		STAILQ_CONCAT(&list, &q->posted);
		pthread_mutex_unlock(&q->lock);
		while (!STAILQ_EMPTY(&list))
			work_off(q, &list);
		pthread_mutex_lock(&q->lock);
		q->writing = !STAILQ_EMPTY(&q->posted);
		pthread_cond_broadcast(&q->idle);
		pthread_mutex_unlock(&q->lock);
		more = limit_history(q->store);
		pthread_mutex_lock(&q->lock);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* Takes the next read that may be done now, or returns NULL. */
static struct store_task *take_read(struct store_queue *q)
{
	struct reading_caller *c = TAILQ_FIRST(&q->callers);
	struct store_task *t = STAILQ_FIRST(&q->own_reads);

	if (t && t->after <= q->n_written)
		return tasks_take(&q->own_reads);
	if (!c)
		return NULL;
	t = tasks_take(&c->tasks);
	TAILQ_REMOVE(&q->callers, c, next);
	if (STAILQ_EMPTY(&c->tasks))
		free(c);
	else
		TAILQ_INSERT_TAIL(&q->callers, c, next);
	return t;
}

static void *read_main(void *arg)
{
	struct store_queue *q = arg;
	struct store_task *t;

	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (!(t = take_read(q)) && !q->ending)
			pthread_cond_wait(&q->may_read, &q->lock);
		if (!t)
			break;
		q->reading = true;
		pthread_mutex_unlock(&q->lock);
		t->r = t->work(q->reader, t->userdata);
		pthread_mutex_lock(&q->lock);
		q->reading = false;
		STAILQ_INSERT_TAIL(&q->answered, t, next);
		STAILQ_CONCAT(&q->answered, &q->answered_after_read);
		pthread_cond_broadcast(&q->idle);
		signal_loop(q);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

/* Returns the queue for a new read of a caller, or NULL if there is no memory. */
static struct store_tasks *reads_of(struct store_queue *q, uint64_t caller)
{
	struct reading_caller *c;

	if (caller == STORE_DAEMON)
		return &q->own_reads;
	TAILQ_FOREACH(c, &q->callers, next)
		if (c->caller == caller)
			return &c->tasks;
	c = malloc(sizeof(*c));
	if (!c)
		return NULL;
	c->caller = caller;
	STAILQ_INIT(&c->tasks);
	TAILQ_INSERT_TAIL(&q->callers, c, next);
	return &c->tasks;
}

static int post_read(struct store_queue *q, uint64_t caller, bool first, struct store_task task)
{
	struct store_task *t = malloc(sizeof(*t));
	struct store_tasks *reads;

	if (!t)
		return -ENOMEM;
	*t = task;
	pthread_mutex_lock(&q->lock);
	assert(!q->ending);
	reads = reads_of(q, caller);
	t->after = q->n_posted;
	if (reads && first)
		STAILQ_INSERT_HEAD(reads, t, next);
	else if (reads)
		STAILQ_INSERT_TAIL(reads, t, next);
	else
		free(t);
	pthread_cond_signal(&q->may_read);
	pthread_mutex_unlock(&q->lock);
	return reads ? 0 : -ENOMEM;
}

/* ---- from outside -----------------------------------------------------------------------------
 */

static void end_threads(struct store_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->ending = true;
	pthread_cond_signal(&q->posted_some);
	pthread_cond_signal(&q->may_read);
	pthread_mutex_unlock(&q->lock);
	(void)pthread_join(q->writing_thread, NULL);
}

static struct store_queue *queue_free(struct store_queue *q)
{
	store_close(q->reader);
	(void)pthread_cond_destroy(&q->idle);
	(void)pthread_cond_destroy(&q->may_read);
	(void)pthread_cond_destroy(&q->posted_some);
	(void)pthread_mutex_destroy(&q->lock);
	fd_closep(&q->fd);
	free(q);
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
	STAILQ_INIT(&q->own_reads);
	STAILQ_INIT(&q->answered_after_read);
	TAILQ_INIT(&q->callers);
	(void)pthread_mutex_init(&q->lock, NULL);
	(void)pthread_cond_init(&q->posted_some, NULL);
	(void)pthread_cond_init(&q->may_read, NULL);
	(void)pthread_cond_init(&q->idle, NULL);
	q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = q->fd < 0 ? -errno : store_open_reader(&q->reader, s);
	if (r >= 0)
		r = thread_start(&q->writing_thread, write_main, q);
	if (r < 0) {
		queue_free(q);
		return r;
	}
	r = thread_start(&q->reading_thread, read_main, q);
	if (r < 0) {
		end_threads(q);
		queue_free(q);
		return r;
	}
	*ret = q;
	return 0;
}

/* Waits until nothing is posted or in progress. Returns true if there are answers. */
static bool drain(struct store_queue *q)
{
	bool some;

	pthread_mutex_lock(&q->lock);
	while (!STAILQ_EMPTY(&q->posted) || q->writing || !STAILQ_EMPTY(&q->own_reads) ||
	       !TAILQ_EMPTY(&q->callers) || q->reading)
		pthread_cond_wait(&q->idle, &q->lock);
	some = !STAILQ_EMPTY(&q->answered);
	pthread_mutex_unlock(&q->lock);
	return some;
}

struct store_queue *store_queue_free(struct store_queue *q)
{
	struct store *s;

	if (!q)
		return NULL;
	/* An answer may have more to be posted. */
	while (drain(q))
		store_queue_dispatch(q);
	end_threads(q);
	(void)pthread_join(q->reading_thread, NULL);
	s = q->store;
	queue_free(q);
	store_close(s);
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
	q->n_posted++;
	pthread_cond_signal(&q->posted_some);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

void store_queue_limit_history(struct store_queue *q, const struct history_limits *limits)
{
	pthread_mutex_lock(&q->lock);
	q->limits = *limits;
	q->limits_changed = true;
	pthread_cond_signal(&q->posted_some);
	pthread_mutex_unlock(&q->lock);
}

int store_queue_post(struct store_queue *q, store_work_t work, store_done_t done, void *userdata)
{
	return post(q, (struct store_task){ .work = work, .done = done, .userdata = userdata });
}

int store_queue_post_last(struct store_queue *q, store_work_t work, store_done_t done,
			  void *userdata)
{
	return post(q, (struct store_task){
			       .work = work, .done = done, .userdata = userdata, .last = true });
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

int store_queue_read(struct store_queue *q, uint64_t caller, store_work_t work, store_done_t done,
		     void *userdata)
{
	return post_read(q, caller, /* first= */ false,
			 (struct store_task){ .work = work, .done = done, .userdata = userdata });
}

int store_queue_read_on(struct store_queue *q, uint64_t caller, store_work_t work,
			store_done_t done, void *userdata)
{
	return post_read(q, caller, /* first= */ true,
			 (struct store_task){ .work = work, .done = done, .userdata = userdata });
}
