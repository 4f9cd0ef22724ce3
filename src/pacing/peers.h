/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lanes in other processes that a pacer paces, too: see include/pace-page.h.
 *
 * Each peer has a page, a socket and a thread that asks the pacer on its behalf. A process that
 * dies, hangs or talks nonsense loses its slice, and nothing else: the other peers go on. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct pacer_peer;
struct pace;
struct pace_page;

/* The peers of one pacer; embedded there, all zero is none. The pacer calls these under its lock,
 * except where it says otherwise. */
struct peers {
	LIST_HEAD(, pacer_peer) list;
	uint64_t gone_sectors; /* read by those that were removed */
};

/* What all of them come to. Counts only grow, whatever the pages say. */
struct peers_sample {
	uint64_t own_sectors;
	unsigned busy;                            /* lanes at work without having asked */
	uint64_t free_entries, free_bytes, syncs; /* without limits, since the last sample */
};

/* Fills in *ret. now_usec: CLOCK_MONOTONIC. While there are limits (`limited`), lanes whose page
 * has not changed for seconds are not waited for any longer. */
void peers_sample(struct peers *p, uint64_t now_usec, bool limited, struct peers_sample *ret);

/* Tells all of them from which size on files go in steps now, in bytes, and what an operation may
 * take. */
void peers_publish(struct peers *p, uint64_t step, uint64_t op_latency_usec);

/* Has one that works sync what was freed by all. */
void peers_request_sync(struct peers *p);

/* Makes a peer of a pacer, whose thread calls `pace`, borrowed; the other ends of its socket and
 * page are for the process (the caller's to close), which gets them only once the peer is in the
 * list. Not under the lock. Returns 0 or a negative errno; -ENOMEM, or what memfd_create(2),
 * mmap(2), socketpair(2) or starting a thread says. */
int peer_new(struct pacer_peer **ret, const struct pace *pace, int *ret_sock, int *ret_page_fd);
/* Puts it into the list, and takes it out again. */
void peers_add(struct peers *p, struct pacer_peer *peer);
void peers_remove(struct peers *p, struct pacer_peer *peer);

/* Its page; the peer's. */
struct pace_page *peer_page(struct pacer_peer *peer);

/* Ends the thread and frees it. NULL is accepted. Not under the lock: the thread may have to take
 * it. */
void peer_free(struct pacer_peer *peer);

/* No more slices are granted from now on, or again. Any thread. */
void pacer_peer_stop(struct pacer_peer *peer, bool stop);

/* What the process says it has removed and freed so far. Any thread; cheap. */
void pacer_peer_progress(const struct pacer_peer *peer, uint64_t *ret_entries, uint64_t *ret_bytes);
