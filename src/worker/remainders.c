/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "remainders.h"

#include <time.h>

#include "base/fd.h"

void rests_init(struct rests *r)
{
	pthread_condattr_t attr;

	*r = (struct rests){ .fate = RESTS_DROP, .wait = true };
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->changed, &attr);
	pthread_condattr_destroy(&attr);
}

void rests_close(struct rests *r)
{
	while (r->n > 0)
		fd_closep(&r->v[--r->n].fd);
}

void rests_done(struct rests *r)
{
	rests_close(r);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
}

bool rests_add(struct rests *r, const struct shrink_remainder *remainder)
{
	bool taken;

	pthread_mutex_lock(&r->lock);
	taken = r->fate != RESTS_DROP && r->n < RESTS_MOST;
	if (taken)
		r->v[r->n++] = *remainder;
	pthread_mutex_unlock(&r->lock);
	return taken;
}

void rests_fate(struct rests *r, enum rests_fate fate)
{
	pthread_mutex_lock(&r->lock);
	r->fate = fate;
	atomic_store(&r->wait, fate != RESTS_FREE);
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

uint64_t rests_bytes(const struct rests *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->n; i++)
		sum += r->v[i].weight;
	return sum;
}

/* Those that somebody else has opened meanwhile are theirs alone, and who opens one waits for the
 * lease to be given up. */
static void let_go_of_broken(struct rests *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		if (shrink_may_continue(&r->v[i]))
			r->v[kept++] = r->v[i];
		else
			fd_closep(&r->v[i].fd);
	}
	r->n = kept;
}

/* Waits as long as they are held. */
static enum rests_fate wait_for_fate(struct rests *r)
{
	enum rests_fate fate;
	struct timespec until;

	pthread_mutex_lock(&r->lock);
	while (r->fate == RESTS_HOLD && r->n > 0) {
		let_go_of_broken(r);
		(void)clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec++;
		(void)pthread_cond_timedwait(&r->changed, &r->lock, &until);
	}
	fate = r->fate;
	pthread_mutex_unlock(&r->lock);
	return fate;
}

void rests_work(struct rests *r, const struct fs_profile *profile, const struct pace *pace,
		_Atomic uint64_t *bytes)
{
	enum rests_fate fate;

	while ((fate = wait_for_fate(r)) != RESTS_DROP && r->n > 0) {
		struct shrink_remainder *remainder = &r->v[r->n - 1];
		/* Only added to, and atomically. */
		struct shrink_count count = { .bytes = (uint64_t *)bytes,
					      .weight = remainder->weight };
		bool more = shrink_continue(remainder, profile, pace, &r->wait, &count);

		remainder->weight -= count.counted;
		if (more)
			continue;
		fd_closep(&remainder->fd);
		r->n--;
	}
	if (fate == RESTS_DROP)
		atomic_fetch_add(bytes, rests_bytes(r));
}
