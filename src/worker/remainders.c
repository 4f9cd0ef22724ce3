/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "remainders.h"

#include <assert.h>

#include "base/fd.h"
#include "base/thread.h"

#define RETRY_USEC (50 * USEC_PER_MSEC)

void remainders_init(struct remainders *r)
{
	*r = (struct remainders){ .disposition = REMAINDERS_CLOSE, .wait = true };
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
}

void remainders_close(struct remainders *r)
{
	while (r->n > 0)
		fd_closep(&r->v[--r->n].fd);
}

void remainders_done(struct remainders *r)
{
	remainders_close(r);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
}

bool remainders_add(struct remainders *r, const struct shrink_remainder *remainder)
{
	bool taken;

	pthread_mutex_lock(&r->lock);
	taken = r->disposition != REMAINDERS_CLOSE && r->n < REMAINDERS_MOST;
	if (taken)
		r->v[r->n++] = *remainder;
	pthread_mutex_unlock(&r->lock);
	return taken;
}

void remainders_dispose(struct remainders *r, enum remainders_disposition disposition)
{
	pthread_mutex_lock(&r->lock);
	r->disposition = disposition;
	assert(disposition <= REMAINDERS_FREE);
	atomic_store(&r->wait, disposition != REMAINDERS_FREE);
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

uint64_t remainders_bytes(const struct remainders *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->n; i++)
		sum += r->v[i].weight;
	return sum;
}

/* Those that another process has opened meanwhile are left to it; it waits for the lease to be
 * given up. */
static void let_go_of_broken(struct remainders *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		if (shrink_may_continue(&r->v[i]))
			r->v[kept++] = r->v[i];
		else
			shrink_give_up(&r->v[i].fd);
	}
	r->n = kept;
}

/* Waits as long as they are held. */
static enum remainders_disposition wait_while_held(struct remainders *r)
{
	enum remainders_disposition disposition;

	pthread_mutex_lock(&r->lock);
	while (r->disposition == REMAINDERS_HOLD && r->n > 0) {
		let_go_of_broken(r);
		cond_wait_until(&r->changed, &r->lock, now_usec() + USEC_PER_SEC);
	}
	disposition = r->disposition;
	pthread_mutex_unlock(&r->lock);
	return disposition;
}

/* Where the pace has ended, the process that keeps it has: what is to become of them is told soon,
 * by the end of the conversation with it. */
static void wait_for_word(struct remainders *r)
{
	pthread_mutex_lock(&r->lock);
	if (r->disposition == REMAINDERS_FREE)
		cond_wait_until(&r->changed, &r->lock, now_usec() + RETRY_USEC);
	pthread_mutex_unlock(&r->lock);
}

void remainders_work(struct remainders *r, const struct fs_profile *profile,
		     const struct pace *pace, _Atomic uint64_t *bytes)
{
	enum remainders_disposition disposition;

	while ((disposition = wait_while_held(r)) != REMAINDERS_CLOSE && r->n > 0) {
		struct shrink_remainder *remainder = &r->v[r->n - 1];
		/* Only added to, and atomically. */
		struct shrink_count count = { .bytes = (uint64_t *)bytes,
					      .weight = remainder->weight };
		bool more = shrink_continue(remainder, profile, pace, &r->wait, &count);

		remainder->weight -= count.counted;
		if (more) {
			wait_for_word(r);
			continue;
		}
		shrink_give_up(&remainder->fd);
		r->n--;
	}
	if (disposition == REMAINDERS_CLOSE)
		atomic_fetch_add(bytes, remainders_bytes(r));
}
