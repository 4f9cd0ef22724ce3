/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "slowdisk-queue.h"

/*
 * Always taking the nearest request would let a stream of near ones starve a far one for good.
 * Disks age what they have queued; here the oldest is taken, whatever the distance, when as many
 * others as fill the queue this often were taken before it.
 */
#define PATIENCE_QUEUES 2
#define NEVER UINT64_MAX

TAILQ_HEAD(request_list, request);

struct queue {
	struct model *model;
	unsigned depth;
	bool delays;
	bool stopping;
	bool started;
	struct request_list waiting; /* in order of arrival */
	struct request_list serving; /* each with the time when it is due */
	unsigned n_serving;
	unsigned n_passed; /* since the oldest waiting request became the oldest */
	bool serving_exclusive;
	struct queue_stats stats;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
};

static uint64_t now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* The one to serve next, or NULL: the nearest of those that the disk sees. */
static struct request *choose(struct queue *queue)
{
	struct request *oldest = TAILQ_FIRST(&queue->waiting);
	struct request *best = oldest, *each;
	unsigned seen = 0;

	if (!oldest || queue->serving_exclusive)
		return NULL;
	if (model_exclusive(oldest->kind))
		return queue->n_serving == 0 ? oldest : NULL;
	if (queue->n_serving >= model_parallel(queue->model, queue->depth))
		return NULL;
	if (queue->n_passed >= PATIENCE_QUEUES * queue->depth)
		return oldest;
	TAILQ_FOREACH(each, &queue->waiting, link) {
		if (model_exclusive(each->kind) || seen++ == queue->depth)
			break;
		if (model_distance(queue->model, each->offset) <
		    model_distance(queue->model, best->offset))
			best = each;
	}
	return best;
}

/*
 * A request may start when it arrived, not when this thread got around to it: the model knows how
 * long the disk was busy, so a late wakeup does not make a busy disk slower.
 */
static void serve(struct queue *queue, struct request *request)
{
	queue->n_passed = request == TAILQ_FIRST(&queue->waiting) ? 0 : queue->n_passed + 1;
	TAILQ_REMOVE(&queue->waiting, request, link);
	request->due_nsec = model_serve(queue->model, request->kind, request->offset,
					request->length, request->arrival_nsec);
	TAILQ_INSERT_TAIL(&queue->serving, request, link);
	queue->n_serving++;
	queue->serving_exclusive = model_exclusive(request->kind);
}

/* At most depth requests are being served, so a list is fast enough. */
static struct request *first_due(struct queue *queue)
{
	struct request *first = NULL, *each;

	TAILQ_FOREACH(each, &queue->serving, link)
		if (!first || each->due_nsec < first->due_nsec)
			first = each;
	return first;
}

static void finish(struct queue *queue, struct request *request)
{
	TAILQ_REMOVE(&queue->serving, request, link);
	queue->n_serving--;
	if (model_exclusive(request->kind))
		queue->serving_exclusive = false;
	queue->stats.latency_nsec += now_nsec() - request->arrival_nsec;
	pthread_mutex_unlock(&queue->lock);
	request->complete(request);
	pthread_mutex_lock(&queue->lock);
}

/* Serve what can be served and finish what is due; returns when there is next something to do. */
static uint64_t advance(struct queue *queue)
{
	for (;;) {
		struct request *request = choose(queue);

		if (request) {
			serve(queue, request);
			continue;
		}
		request = first_due(queue);
		if (!request)
			return NEVER;
		if (queue->delays && !queue->stopping && request->due_nsec > now_nsec())
			return request->due_nsec;
		finish(queue, request);
	}
}

static void wait_until(struct queue *queue, uint64_t nsec)
{
	struct timespec ts = {
		.tv_sec = (time_t)(nsec / UINT64_C(1000000000)),
		.tv_nsec = (long)(nsec % UINT64_C(1000000000)),
	};

	if (nsec == NEVER)
		pthread_cond_wait(&queue->changed, &queue->lock);
	else
		pthread_cond_clockwait(&queue->changed, &queue->lock, CLOCK_MONOTONIC, &ts);
}

static void *run(void *userdata)
{
	struct queue *queue = userdata;

	pthread_mutex_lock(&queue->lock);
	for (;;) {
		uint64_t next = advance(queue);

		if (queue->stopping && next == NEVER)
			break;
		wait_until(queue, next);
	}
	pthread_mutex_unlock(&queue->lock);
	return NULL;
}

int queue_new(struct model *model, unsigned depth, bool delays, struct queue **ret)
{
	struct queue *queue = calloc(1, sizeof(*queue));
	int r;

	if (!queue)
		return -ENOMEM;
	queue->depth = depth;
	queue->delays = delays;
	TAILQ_INIT(&queue->waiting);
	TAILQ_INIT(&queue->serving);
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->changed, NULL);
	queue->model = model;
	r = pthread_create(&queue->thread, NULL, run, queue);
	if (r > 0) {
		queue->model = NULL;
		queue_free(queue);
		return -r;
	}
	queue->started = true;
	*ret = queue;
	return 0;
}

static void stop(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->stopping = true;
	pthread_cond_signal(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
	pthread_join(queue->thread, NULL);
}

struct queue *queue_free(struct queue *queue)
{
	if (!queue)
		return NULL;
	if (queue->started)
		stop(queue);
	pthread_mutex_destroy(&queue->lock);
	pthread_cond_destroy(&queue->changed);
	model_free(queue->model);
	free(queue);
	return NULL;
}

void queue_submit(struct queue *queue, struct request *request)
{
	bool at_once;

	request->arrival_nsec = now_nsec();
	pthread_mutex_lock(&queue->lock);
	queue->stats.requests[request->kind]++;
	queue->stats.bytes[request->kind] += request->length;
	at_once = !queue->delays && TAILQ_EMPTY(&queue->waiting) && queue->n_serving == 0;
	if (!at_once) {
		TAILQ_INSERT_TAIL(&queue->waiting, request, link);
		pthread_cond_signal(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	if (at_once)
		request->complete(request);
}

void queue_set_delays(struct queue *queue, bool delays)
{
	pthread_mutex_lock(&queue->lock);
	if (delays && !queue->delays)
		model_rest(queue->model);
	queue->delays = delays;
	pthread_cond_signal(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

void queue_get_stats(struct queue *queue, struct queue_stats *ret)
{
	pthread_mutex_lock(&queue->lock);
	*ret = queue->stats;
	ret->n_seeks = model_n_seeks(queue->model);
	pthread_mutex_unlock(&queue->lock);
}
