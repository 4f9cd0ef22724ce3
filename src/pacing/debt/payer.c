/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "payer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/thread.h"
#include "writeback.h"

/* The kernel writes back by itself what is 30 s old (vm.dirty_expire_centisecs). */
#define PASS_EVERY (10 * USEC_PER_SEC)
/* Visiting all metadata of a large filesystem takes seconds of a processor: a twentieth of it. */
#define SEARCH_SHARE 20
/* Eight blocks are eight seeks at most: as much as a small file that is written elsewhere. */
#define HARMLESS KiB(32)
/* Blocks that later commits dirty again are paid by the next pass; where another program dirties
 * some all the time there is no end. */
#define PASSES_MOST 3
/* By then the kernel has begun by itself. */
#define ROUND_MOST (40 * USEC_PER_SEC)
/* After so long without an answer the turn is given back, and after so long the device is not
 * waited for any more. */
#define SILENT (2 * USEC_PER_SEC)
#define HANGS (30 * USEC_PER_SEC)
#define WAIT_MSEC 50

struct payer {
	struct payer_turn turn;
	dev_t device;
	struct writeback *writeback; /* during a round */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	_Atomic bool stop;
	bool worked;            /* something was deleted since the last pass began */
	uint64_t passed_usec;   /* when the last pass ended */
	uint64_t searched_usec; /* what its search took */
	uint64_t wanted,
		settled; /* how often it was asked to settle, and how many of these are over */
	struct payer_view view;
};

/* Waits for the answer to what was asked, until then. Returns false if there is none. */
static bool answer(struct payer *p, struct writeback_sample *ret, uint64_t until_usec)
{
	do {
		writeback_wait(p->writeback, WAIT_MSEC);
		writeback_sample(p->writeback, ret);
	} while ((ret->busy || !ret->ready) && !ret->gone && !atomic_load(&p->stop) &&
		 now_usec() < until_usec);
	pthread_mutex_lock(&p->lock);
	p->view.owed_bytes = ret->dirty_bytes;
	p->view.estimated = ret->estimated;
	p->view.works = !ret->gone && ret->ready;
	pthread_mutex_unlock(&p->lock);
	return ret->ready && !ret->busy && !ret->gone;
}

static bool look(struct payer *p, uint64_t *ret_dirty)
{
	struct writeback_sample s;

	writeback_ask(p->writeback, 0);
	if (!answer(p, &s, now_usec() + HANGS))
		return false;
	*ret_dirty = s.dirty_bytes;
	return true;
}

/* One step, within what was granted; *ret says what came of it. Returns false if paying cannot go
 * on. */
static bool step(struct payer *p, uint64_t bytes, struct writeback_sample *ret)
{
	uint64_t began = now_usec();

	writeback_ask(p->writeback, bytes);
	if (answer(p, ret, began + SILENT)) {
		p->turn.end(p->turn.userdata, ret->written, ret->last_usec);
	} else {
		/* Lanes on other filesystems of the same disks wait for the turn. */
		p->turn.end(p->turn.userdata, 0, 0);
		if (!answer(p, ret, began + HANGS))
			return false;
	}
	pthread_mutex_lock(&p->lock);
	p->view.paid_bytes += ret->written;
	p->view.steps += ret->written > 0;
	pthread_mutex_unlock(&p->lock);
	return ret->error == 0;
}

/* One pass over the device. Returns false if it cannot go on, or not in time. */
static bool pass(struct payer *p, uint64_t until_usec)
{
	struct writeback_sample s = { 0 };
	uint64_t bytes;

	p->searched_usec = 0;
	while (!s.pass_done) {
		if (now_usec() >= until_usec ||
		    !p->turn.begin(p->turn.userdata, &p->stop, &bytes) || !step(p, bytes, &s))
			return false;
		p->searched_usec += s.searched_usec;
	}
	return true;
}

/* Passes until little is dirty, or the next one would gain little. */
static void pay_round(struct payer *p, unsigned passes_most)
{
	uint64_t until = now_usec() + ROUND_MOST, dirty = 0, before;
	struct writeback_sample s;
	struct payer_view v;

	/* The device is open during a round only: it may be taken away in between. */
	if (writeback_new(&p->writeback, p->device) < 0)
		return;
	if (answer(p, &s, until) && look(p, &dirty))
		for (unsigned n = 0; n < passes_most && dirty > HARMLESS; n++) {
			before = dirty;
			if (!pass(p, until) || !look(p, &dirty) || dirty > before / 2)
				break;
		}
	p->writeback = writeback_free(p->writeback);
	payer_snapshot(p, &v);
	if (v.works)
		debug_log("debt: %" PRIu64 " bytes written back in %" PRIu64
			  " steps so far; %" PRIu64 " are dirty",
			  v.paid_bytes, v.steps, v.owed_bytes);
	else
		debug_log("debt: left to the kernel: %u:%u cannot be read, or neither the "
			  "kernel nor the filesystem tells what is to be written back",
			  major(p->device), minor(p->device));
}

/* Lock held: when the next pass is, if there is something to pay by then. */
static uint64_t next_pass(const struct payer *p)
{
	return p->passed_usec + MAX(PASS_EVERY, SEARCH_SHARE * p->searched_usec);
}

/* Lock held: waits until there is something to do. */
static void wait_for_work(struct payer *p)
{
	while (!p->stop && p->settled == p->wanted && (!p->worked || now_usec() < next_pass(p)))
		cond_wait_until(&p->changed, &p->lock, p->worked ? next_pass(p) : UINT64_MAX);
}

static void *pay(void *userdata)
{
	struct payer *p = userdata;

	pthread_mutex_lock(&p->lock);
	while (wait_for_work(p), !p->stop) {
		uint64_t wanted = p->wanted;
		bool ends = wanted != p->settled;

		p->worked = false;
		pthread_mutex_unlock(&p->lock);
		pay_round(p, ends ? PASSES_MOST : 1);
		pthread_mutex_lock(&p->lock);
		p->settled = wanted;
		p->passed_usec = now_usec();
		pthread_cond_broadcast(&p->changed);
	}
	p->settled = p->wanted;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int payer_new(struct payer **ret, dev_t device, const struct payer_turn *turn)
{
	struct payer *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->turn = *turn;
	p->device = device;
	p->passed_usec = now_usec();
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	r = thread_start(&p->thread, pay, p);
	if (r < 0) {
		free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void payer_work(struct payer *p)
{
	pthread_mutex_lock(&p->lock);
	if (!p->worked) {
		p->worked = true;
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
}

void payer_ask(struct payer *p)
{
	pthread_mutex_lock(&p->lock);
	p->wanted++;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

bool payer_is_settled(struct payer *p)
{
	bool settled;

	pthread_mutex_lock(&p->lock);
	settled = p->settled == p->wanted;
	pthread_mutex_unlock(&p->lock);
	return settled;
}

void payer_settle(struct payer *p, const _Atomic bool *cancelled)
{
	uint64_t mine;

	payer_ask(p);
	pthread_mutex_lock(&p->lock);
	mine = p->wanted;
	while (p->settled < mine && !p->stop && !(cancelled && atomic_load(cancelled)))
		cond_wait_until(&p->changed, &p->lock, now_usec() + WAIT_MSEC * USEC_PER_MSEC);
	pthread_mutex_unlock(&p->lock);
}

void payer_snapshot(struct payer *p, struct payer_view *ret)
{
	pthread_mutex_lock(&p->lock);
	*ret = p->view;
	pthread_mutex_unlock(&p->lock);
}

struct payer *payer_free(struct payer *p)
{
	if (!p)
		return NULL;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}
