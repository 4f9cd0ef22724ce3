/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The queue of the simulated disk: requests go in from any thread and come out when the model says
 * that the disk would be done with them. One thread of its own decides what is served next and
 * waits for the time; it is also the one that calls back.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "slowdisk-model.h"

struct request {
	enum request_kind kind;
	uint64_t offset;
	uint64_t length;
	/* Called once, without locks held; owns the request from then on. */
	void (*complete)(struct request *request);

	/* Private to the queue. */
	TAILQ_ENTRY(request) link;
	uint64_t arrival_nsec;
	uint64_t due_nsec;
};

struct queue_stats {
	uint64_t requests[N_REQUEST_KINDS];
	uint64_t bytes[N_REQUEST_KINDS];
	uint64_t n_seeks;
	uint64_t latency_nsec; /* summed over the requests that were delayed */
};

struct queue;

/*
 * Takes over the model on success. depth is how many requests the disk sees at once (NCQ: 32), and
 * chooses the nearest from. Returns 0 or a negative errno.
 */
int queue_new(struct model *model, unsigned depth, bool delays, struct queue **ret);

/* Completes whatever is left at once. */
struct queue *queue_free(struct queue *queue);

void queue_submit(struct queue *queue, struct request *request);

/* Without delays every request is done as soon as it comes, and costs nothing. */
void queue_set_delays(struct queue *queue, bool delays);

void queue_get_stats(struct queue *queue, struct queue_stats *ret);
