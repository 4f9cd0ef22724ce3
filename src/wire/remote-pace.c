/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "remote-pace.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pace-page.h"
#include "pace.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/thread.h"

/* How often a waiting lane polls for cancellation. */
#define POLL_USEC (50 * USEC_PER_MSEC)

struct remote_pace {
	struct pace pace;
	struct pace_page *page;
	int sock;
	/* The conversation: taken by the lane whose slice was granted, until it is over. */
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool taken;
	_Atomic pthread_t holder; /* within a slice, else 0 */
	_Atomic bool broken;
};

/* One question, one answer. False if the other process is not there any more. */
static bool ask(struct remote_pace *p, struct pace_message *m)
{
	uint32_t kind = m->kind;

	if (send(p->sock, m, sizeof(*m), MSG_NOSIGNAL) == (ssize_t)sizeof(*m) &&
	    TEMP_FAILURE_RETRY(recv(p->sock, m, sizeof(*m), 0)) == (ssize_t)sizeof(*m) &&
	    m->kind == kind)
		return true;
	atomic_store(&p->broken, true);
	return false;
}

static bool begin_free(struct remote_pace *p, struct pace_budget *ret)
{
	if (atomic_load(&p->page->step) != PACE_NO_LIMITS)
		return false;
	/* Counted first and looked again, so that no lane begins unseen while all should rest. */
	atomic_fetch_add(&p->page->busy, 1);
	if (atomic_load(&p->page->step) == PACE_NO_LIMITS) {
		*ret = (struct pace_budget){ UINT64_MAX, UINT64_MAX };
		return true;
	}
	atomic_fetch_sub(&p->page->busy, 1);
	return false;
}

/* Waits for the conversation. False if it goes on: look again. */
static bool turn_take(struct remote_pace *p)
{
	bool mine;

	pthread_mutex_lock(&p->lock);
	if (p->taken)
		cond_wait_until(&p->over, &p->lock, now_usec() + POLL_USEC);
	mine = !p->taken;
	p->taken = true;
	pthread_mutex_unlock(&p->lock);
	return mine;
}

static void turn_end(struct remote_pace *p)
{
	atomic_store(&p->holder, 0);
	pthread_mutex_lock(&p->lock);
	assert(p->taken);
	p->taken = false;
	pthread_cond_signal(&p->over);
	pthread_mutex_unlock(&p->lock);
}

static bool my_turn(struct remote_pace *p)
{
	return atomic_load(&p->holder) == pthread_self();
}

static bool begin(void *userdata, const _Atomic bool *cancelled, struct pace_budget *ret)
{
	struct remote_pace *p = userdata;
	struct pace_message m;

	while (!atomic_load(cancelled) && !atomic_load(&p->broken)) {
		if (begin_free(p, ret))
			return true;
		if (!turn_take(p))
			continue;
		m = (struct pace_message){ .kind = PACE_BEGIN };
		if (ask(p, &m) && m.yes) {
			atomic_store(&p->holder, pthread_self());
			*ret = (struct pace_budget){ MAX(m.entries, 1ULL), MAX(m.bytes, 1ULL) };
			return true;
		}
		turn_end(p);
		/* It was stopped there, and will be told so here. */
		if (!atomic_load(cancelled) && !atomic_load(&p->broken))
			(void)usleep(POLL_USEC / 10);
	}
	return false;
}

static bool spent(void *userdata, uint64_t entries, uint64_t bytes, uint64_t cost_usec)
{
	struct remote_pace *p = userdata;
	struct pace_message m = { PACE_SPENT, 0, entries, bytes, cost_usec };
	struct rusage ru;

	atomic_fetch_add(&p->page->entries, entries);
	atomic_fetch_add(&p->page->bytes, bytes);
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		atomic_store(&p->page->own_sectors, (uint64_t)ru.ru_inblock);
	if (!my_turn(p)) {
		atomic_fetch_add(&p->page->free_entries, entries);
		atomic_fetch_add(&p->page->free_bytes, bytes);
		/* Still busy while it syncs. */
		if (atomic_exchange(&p->page->sync_wanted, 0))
			return true;
		atomic_fetch_sub(&p->page->busy, 1);
		return false;
	}
	if (ask(p, &m) && m.yes)
		return true;
	turn_end(p);
	return false;
}

static void synced(void *userdata, uint64_t cost_usec)
{
	struct remote_pace *p = userdata;
	struct pace_message m = { .kind = PACE_SYNCED, .cost_usec = cost_usec };

	if (!my_turn(p)) {
		atomic_fetch_add(&p->page->syncs, 1);
		atomic_fetch_sub(&p->page->busy, 1);
		return;
	}
	(void)ask(p, &m);
	turn_end(p);
}

static uint64_t step(void *userdata)
{
	struct remote_pace *p = userdata;

	return atomic_load_explicit(&p->page->step, memory_order_relaxed);
}

static uint64_t op_latency(void *userdata)
{
	struct remote_pace *p = userdata;

	return atomic_load_explicit(&p->page->op_latency_usec, memory_order_relaxed);
}

int remote_pace_new(struct remote_pace **ret, int sock, int page_fd)
{
	struct remote_pace *p = calloc(1, sizeof(*p));
	int r;

	if (!p) {
		(void)close(sock);
		return -ENOMEM;
	}
	p->sock = sock;
	p->pace = (struct pace){ begin, spent, synced, step, op_latency, p };
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->over, NULL);
	p->page = mmap(NULL, sizeof(*p->page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	if (p->page == MAP_FAILED) {
		r = -errno;
		p->page = NULL;
		remote_pace_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

struct remote_pace *remote_pace_free(struct remote_pace *p)
{
	if (!p)
		return NULL;
	if (p->page)
		(void)munmap(p->page, sizeof(*p->page));
	fd_closep(&p->sock);
	pthread_cond_destroy(&p->over);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}

const struct pace *remote_pace(struct remote_pace *p)
{
	return &p->pace;
}
