/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lanes in other processes that a pacer paces, too: see include/pace-page.h.
 *
 * Each peer has a page, a socket and a thread that asks the pacer on its behalf. A process that
 * dies, hangs or talks nonsense loses its turn, and nothing else: the others go on. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct pacer_peer;
struct pace;
struct pace_page;

/* The peers of one pacer; embedded there, all zero is none. The pacer calls these under its lock,
 * except where it says otherwise. */
struct peers {
	struct pacer_peer *first;
	uint64_t gone_sectors; /* read by those that have left */
};

/* What all of them come to. Counts only grow, whatever the pages say. */
struct peers_sample {
	uint64_t own_sectors;
	unsigned busy;                            /* lanes at work without having asked */
	uint64_t free_entries, free_bytes, syncs; /* without limits, since the last sample */
};

/* now_usec: CLOCK_MONOTONIC; lanes of which nothing has been heard for seconds while all should
 * rest (limits) are not waited for any longer. */
void peers_sample(struct peers *p, uint64_t now_usec, bool limited, struct peers_sample *ret);

/* Tells all of them from which size on files go in steps now, and what an operation may take. */
void peers_publish(struct peers *p, uint64_t step, uint64_t op_latency_usec);

/* One that works is to sync what was freed. */
void peers_request_sync(struct peers *p);

/* A new peer of a pacer, in its list: `pace` is the pacer's. Returns 0 or a negative errno. */
int peer_new(struct pacer_peer **ret, const struct pace *pace);
void peers_add(struct peers *p, struct pacer_peer *peer);
void peers_remove(struct peers *p, struct pacer_peer *peer);

/* Starts its thread; the other ends of its socket and page are for the process (the caller's to
 * close). Not under the lock. */
int peer_start(struct pacer_peer *peer, int *ret_sock, int *ret_page_fd);
/* Its page; the peer's. */
struct pace_page *peer_page(struct pacer_peer *peer);

/* Ends the thread and frees it. Not under the lock: the thread may have to take it. */
void peer_free(struct pacer_peer *peer);

/* No more slices are granted from now on, or again. Any thread. */
void pacer_peer_stop(struct pacer_peer *peer, bool stop);

/* What the process says it has removed and freed so far. Any thread; cheap. */
void pacer_peer_progress(const struct pacer_peer *peer, uint64_t *ret_entries, uint64_t *ret_bytes);
