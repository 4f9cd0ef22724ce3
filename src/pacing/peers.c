/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "peers.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pace-page.h"
#include "pace.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/thread.h"

/* The page of a lane that works changes at the end of each slice. A process that was stopped in
 * mid-slice must not make all others rest; a slice of a second is longer than any directory or step
 * takes. */
#define SILENCE_MOST (2 * USEC_PER_SEC)

/* A slice within limits, its sync included, takes milliseconds; a disk that hangs may take a minute
 * to say so, and no other lane gets far on it either. */
#define SLICE_MOST_MSEC 60000

struct pacer_peer {
	LIST_ENTRY(pacer_peer) link;
	const struct pace *pace;
	struct pace_page *page;
	int page_fd, sock;
	pthread_t thread;
	bool started;
	_Atomic bool stopped;
	_Atomic bool ending;

	/* As of the last sample, under the pacer's lock. */
	uint64_t own_sectors, entries, bytes, free_entries, free_bytes, syncs;
	uint64_t active_usec; /* when anything changed */
	uint32_t busy;
};

/* Takes a count of the page over: it only grows. Returns by how much. */
static uint64_t grown(uint64_t *known, _Atomic uint64_t *count)
{
	uint64_t now = atomic_load(count), by = now > *known ? now - *known : 0;

	*known += by;
	return by;
}

static void peer_sample(struct pacer_peer *peer, uint64_t now, bool limited,
			struct peers_sample *sum)
{
	struct pace_page *page = peer->page;
	uint64_t entries = grown(&peer->entries, &page->entries);
	uint64_t bytes = grown(&peer->bytes, &page->bytes);
	uint64_t sectors = grown(&peer->own_sectors, &page->own_sectors);
	uint32_t busy = MIN(atomic_load(&page->busy), 1024U);

	if (!limited || entries || bytes || sectors || busy != peer->busy)
		peer->active_usec = now;
	peer->busy = busy;
	if (now - peer->active_usec < SILENCE_MOST)
		sum->busy += busy;
	sum->own_sectors += peer->own_sectors;
	sum->free_entries += grown(&peer->free_entries, &page->free_entries);
	sum->free_bytes += grown(&peer->free_bytes, &page->free_bytes);
	sum->syncs += grown(&peer->syncs, &page->syncs);
}

void peers_sample(struct peers *p, uint64_t now_usec, bool limited, struct peers_sample *ret)
{
	*ret = (struct peers_sample){ .own_sectors = p->gone_sectors };
	for (struct pacer_peer *peer = LIST_FIRST(&p->list); peer; peer = LIST_NEXT(peer, link))
		peer_sample(peer, now_usec, limited, ret);
}

void peers_publish(struct peers *p, uint64_t step, uint64_t op_latency_usec)
{
	for (struct pacer_peer *peer = LIST_FIRST(&p->list); peer; peer = LIST_NEXT(peer, link)) {
		atomic_store(&peer->page->step, step);
		atomic_store(&peer->page->op_latency_usec, op_latency_usec);
	}
}

void peers_request_sync(struct peers *p)
{
	/* A commit takes along what all have freed, so that one is enough. */
	for (struct pacer_peer *peer = LIST_FIRST(&p->list); peer; peer = LIST_NEXT(peer, link))
		if (peer->busy > 0) {
			atomic_store(&peer->page->sync_wanted, 1);
			return;
		}
}

void peers_add(struct peers *p, struct pacer_peer *peer)
{
	LIST_INSERT_HEAD(&p->list, peer, link);
}

void peers_remove(struct peers *p, struct pacer_peer *peer)
{
	LIST_REMOVE(peer, link);
	p->gone_sectors += peer->own_sectors;
}

static int page_make(struct pacer_peer *peer)
{
	void *page;

	peer->page_fd = memfd_create("pace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (peer->page_fd < 0)
		return -errno;
	/* Were it made smaller by the process, reading it here would be a SIGBUS. */
	if (ftruncate(peer->page_fd, sizeof(struct pace_page)) < 0 ||
	    fcntl(peer->page_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	page = mmap(NULL, sizeof(struct pace_page), PROT_READ | PROT_WRITE, MAP_SHARED,
		    peer->page_fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	peer->page = page;
	return 0;
}

/* Receives one message, of one of these kinds. 0; -ECONNRESET when the other end is gone or silent
 * for too long; -EBADMSG. */
static int receive(struct pacer_peer *peer, int timeout_msec, unsigned kinds,
		   struct pace_message *ret)
{
	struct pollfd pfd = { .fd = peer->sock, .events = POLLIN };
	ssize_t n;

	while (poll(&pfd, 1, timeout_msec) < 0)
		if (errno != EINTR)
			return -errno;
	if (!(pfd.revents & POLLIN))
		return -ECONNRESET;
	n = recv(peer->sock, ret, sizeof(*ret), MSG_DONTWAIT | MSG_TRUNC);
	if (n <= 0)
		return n < 0 ? -errno : -ECONNRESET;
	return n == (ssize_t)sizeof(*ret) && ret->kind < PACE_KINDS && kinds & 1U << ret->kind
		       ? 0
		       : -EBADMSG;
}

static int answer(struct pacer_peer *peer, const struct pace_message *m)
{
	/* One answer for each question: the socket has room, or its other end does not read. */
	return send(peer->sock, m, sizeof(*m), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Goes through one slice: its beginning, what it cost, and the sync if it is due. */
static int slice_serve(struct pacer_peer *peer)
{
	const struct pace *pace = peer->pace;
	struct pace_budget budget = { 0 };
	struct pace_message m = { 0 };
	int r = receive(peer, -1, 1U << PACE_BEGIN, &m);

	if (r < 0)
		return r;
	m.yes = pace->begin(pace->userdata, &peer->stopped, &budget);
	m.entries = budget.entries;
	m.bytes = budget.bytes;
	r = answer(peer, &m);
	if (!m.yes)
		return r;
	if (r >= 0)
		r = receive(peer, SLICE_MOST_MSEC, 1U << PACE_SPENT | 1U << PACE_SYNCED, &m);
	/* However it ends, the slice does. */
	if (r < 0)
		m = (struct pace_message){ .kind = PACE_SPENT };
	if (m.kind == PACE_SPENT) {
		m.yes = pace->spent(pace->userdata, m.entries, m.bytes, m.cost_usec);
		if (r >= 0)
			r = answer(peer, &m);
		if (!m.yes)
			return r;
		if (r >= 0)
			r = receive(peer, SLICE_MOST_MSEC, 1U << PACE_SYNCED, &m);
	}
	pace->synced(pace->userdata, r < 0 ? 0 : m.cost_usec);
	return r < 0 ? r : answer(peer, &m);
}

static void *serve(void *userdata)
{
	struct pacer_peer *peer = userdata;

	while (!atomic_load(&peer->ending) && slice_serve(peer) >= 0)
		;
	/* A lane that asks now is told so by the end of the stream, and stops. */
	(void)shutdown(peer->sock, SHUT_RDWR);
	return NULL;
}

int peer_new(struct pacer_peer **ret, const struct pace *pace, int *ret_sock, int *ret_page_fd)
{
	_cleanup_close_ int page = -1, its = -1;
	struct pacer_peer *peer = calloc(1, sizeof(*peer));
	int pair[2], r;

	if (!peer)
		return -ENOMEM;
	peer->pace = pace;
	peer->sock = peer->page_fd = -1;
	r = page_make(peer);
	if (r >= 0 && (page = fcntl(peer->page_fd, F_DUPFD_CLOEXEC, 3)) < 0)
		r = -errno;
	if (r >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		r = -errno;
	if (r >= 0) {
		peer->sock = pair[0];
		its = pair[1];
		r = thread_start(&peer->thread, serve, peer);
		peer->started = r >= 0;
	}
	if (r < 0) {
		peer_free(peer);
		return r;
	}
	*ret_sock = fd_take(&its);
	*ret_page_fd = fd_take(&page);
	*ret = peer;
	return 0;
}

struct pace_page *peer_page(struct pacer_peer *peer)
{
	return peer->page;
}

void peer_free(struct pacer_peer *peer)
{
	if (!peer)
		return;
	atomic_store(&peer->stopped, true);
	atomic_store(&peer->ending, true);
	if (peer->sock >= 0)
		(void)shutdown(peer->sock, SHUT_RDWR);
	if (peer->started)
		pthread_join(peer->thread, NULL);
	if (peer->page)
		(void)munmap(peer->page, sizeof(*peer->page));
	fd_closep(&peer->sock);
	fd_closep(&peer->page_fd);
	free(peer);
}

void pacer_peer_stop(struct pacer_peer *peer, bool stop)
{
	atomic_store(&peer->stopped, stop);
}

void pacer_peer_progress(const struct pacer_peer *peer, uint64_t *ret_entries, uint64_t *ret_bytes)
{
	*ret_entries = atomic_load(&peer->page->entries);
	*ret_bytes = atomic_load(&peer->page->bytes);
}
