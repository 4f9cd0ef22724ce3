/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pacer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#include "decision-log.h"
#include "pacing/debt/discard-hold.h"
#include "pacing/debt/payer.h"
#include "pacing/sensors/device-set.h"
#include "pacing/sensors/discard-wait.h"
#include "pacing/sensors/pressure-sensor.h"
#include "pace.h"
#include "peers.h"
#include "pacing/sensors/sensors.h"
#include "trace.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/thread.h"

/* A lane that waits asks so often whether it was cancelled. */
#define WAIT_MOST (50 * USEC_PER_MSEC)

#define DISCARD_POLL_USEC 100

/* Of what a step trims the device tells when it has done it. Nothing more comes if nothing is in
 * flight for so long, or, where devices round off what they discard and foreign requests are always
 * in flight, if most has come and nothing for a while. No single discard takes as long as the last.
 */
#define TRIM_LULL (4 * USEC_PER_MSEC)
#define TRIM_ROUNDED (20 * USEC_PER_MSEC)
#define TRIM_STUCK (2 * USEC_PER_SEC)

/* Filesystems on one set of devices: of more, the rest is left to the kernel. */
#define DEBTS_MOST 16

/* A lane that waits to be let go on; on its stack. */
struct waiting_lane {
	TAILQ_ENTRY(waiting_lane) link;
};
TAILQ_HEAD(waiting_lanes, waiting_lane);

/* A filesystem on which something is left to the kernel. What pays it is made when there is
 * something to pay, and stays. */
struct debt {
	dev_t device;
	struct payer *payer;       /* ext2, ext3, ext4 */
	struct discard_hold *hold; /* btrfs, once it was tried */
	bool discards, tried;      /* a btrfs that discards by itself */
	bool trying;               /* just now, by another thread */
	struct discard_request request;
};

struct pacer {
	struct pace pace;
	struct pacer_options o;
	struct devices devices;
	struct sensors sensors;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct controller controller;
	struct decision_log log;
	struct peers peers;
	pthread_t thread;
	bool started, stop, suspended;
	bool canary_changes; /* the sampler is to make another one, with its file in: */
	int canary_dirfd;    /* -1: none */

	/* In paced mode one lane works at a time. The others wait in the order in which they came,
	 * so that the lanes of several jobs share a device evenly. */
	pthread_t owner;
	bool owned;
	struct waiting_lanes waiting;
	_Atomic uint64_t step; /* see include/pace.h */

	struct discard_wait discards; /* its base_bytes: when the quantum was begun */
	uint64_t trim_base_bytes;     /* discarded when the step was begun */
	bool trim_released;           /* the step goes on, and is not waited for */
	uint64_t entries, bytes;      /* since the last snapshot */
	uint64_t snapshot_usec;

	/* The filesystems that are deleted from. */
	struct debt debts[DEBTS_MOST];
	size_t n_debts;
	uint64_t foreign_entries, foreign_bytes; /* that other processes have deleted */
};

/* Lock held: after anything that the controller was told. */
static void step_publish(struct pacer *p)
{
	const struct controller *c = &p->controller;
	uint64_t step = controller_step(c);

	atomic_store_explicit(&p->step, step, memory_order_relaxed);
	/* Speed first, or the bound of the configuration, or what it takes alone. */
	peers_publish(&p->peers, step,
		      c->urgent || p->o.off ? 0
		      : c->o.latency_usec   ? c->o.latency_usec
					    : PACE_OP_AUTO);
}

/* Lock held. */
static void freed_add(struct pacer *p, uint64_t entries, uint64_t bytes)
{
	p->entries += entries;
	p->bytes += bytes;
	p->controller.totals.entries += entries;
	p->controller.totals.bytes += bytes;
	for (size_t i = 0; (entries > 0 || bytes > 0) && i < p->n_debts; i++)
		if (p->debts[i].payer)
			payer_work(p->debts[i].payer);
}

/* Lock held: what the lanes of peers did is part of what ours did. */
static void peers_account(struct pacer *p, struct pacing_sample *s)
{
	struct peers_sample all;

	peers_sample(&p->peers, s->now_usec, controller_step(&p->controller) != UINT64_MAX, &all);
	s->own_sectors += all.own_sectors;
	s->peers_outstanding = all.busy;
	freed_add(p, all.free_entries, all.free_bytes);
	if (all.syncs > 0)
		controller_fast_synced(&p->controller, all.syncs);
	if ((all.free_entries > 0 || all.free_bytes > 0) &&
	    controller_fast_spent(&p->controller, all.free_entries, all.free_bytes))
		peers_request_sync(&p->peers);
}

static void canary_steer(struct pacer *p)
{
	if (!p->sensors.canary)
		return;
	/* Killed, or impossible there. It is not made again: what there is no memory for now would
	 * be killed again, and pacing does without on some filesystems anyway. */
	if (p->sensors.canary_gone)
		controller_no_canary(&p->controller);
	else if (!p->suspended && controller_wants_canary(&p->controller))
		canary_ask(p->sensors.canary);
}

/* Lock held, but not while a process is ended and another started. Only the sampler uses the
 * canary. */
static void canary_change(struct pacer *p)
{
	int fd = fd_take(&p->canary_dirfd);

	p->canary_changes = false;
	pthread_mutex_unlock(&p->lock);
	sensors_canary(&p->sensors, fd);
	fd_closep(&fd);
	pthread_mutex_lock(&p->lock);
}

/* Lock held. */
static void leave(struct pacer *p)
{
	if (!p->owned || !pthread_equal(p->owner, pthread_self()))
		return;
	p->owned = false;
	pthread_cond_broadcast(&p->changed);
}

/* What says how large a step beside the lanes may be. */
typedef struct pacing_grant step_next(const struct controller *c, uint64_t now_usec);

/* Lock held: a turn for a step that pays, or trims. It does not wait in line: a lane behind it
 * would rest for as long as it does. */
static bool turn_try(struct pacer *p, step_next *next, uint64_t *ret_bytes)
{
	uint64_t now = now_usec();
	struct pacing_grant g = next(&p->controller, now);

	if (p->suspended)
		g.not_before_usec = PACING_UNLIMITED;
	if (g.not_before_usec <= now && !p->owned && controller_yields(&p->controller))
		g.not_before_usec = controller_yield_until(
			&p->controller, now, sensors_discards(&p->sensors, &(uint64_t){ 0 }));
	if (g.not_before_usec > now || p->owned) {
		cond_wait_until(&p->changed, &p->lock,
				MIN(g.not_before_usec > now ? g.not_before_usec : UINT64_MAX,
				    now + WAIT_MOST));
		return false;
	}
	*ret_bytes = g.bytes;
	return true;
}

static bool turn_begin(struct pacer *p, step_next *next, const _Atomic bool *cancelled,
		       uint64_t *ret_bytes)
{
	bool granted = false;

	pthread_mutex_lock(&p->lock);
	while (!granted && !atomic_load(cancelled))
		granted = turn_try(p, next, ret_bytes);
	if (granted) {
		/* Where there is no foreign I/O lanes do not rest for a step. */
		p->owned = p->controller.mode == PACING_PACED && !p->controller.urgent;
		p->owner = pthread_self();
		controller_begin(&p->controller);
	}
	pthread_mutex_unlock(&p->lock);
	return granted;
}

static bool debt_begin(void *userdata, const _Atomic bool *cancelled, uint64_t *ret_bytes)
{
	return turn_begin(userdata, controller_debt_next, cancelled, ret_bytes);
}

static void debt_end(void *userdata, uint64_t bytes, uint64_t cost_usec)
{
	struct pacer *p = userdata;

	pthread_mutex_lock(&p->lock);
	controller_debt_spent(&p->controller, now_usec(), bytes, cost_usec);
	if (p->o.trace)
		trace_work(p->o.trace, 'd', p->controller.mode, p->controller.debt.limit, bytes,
			   cost_usec);
	leave(p);
	pthread_mutex_unlock(&p->lock);
}

bool pacer_trim_begin(struct pacer *p, const _Atomic bool *cancelled, uint64_t *ret_bytes)
{
	if (!turn_begin(p, controller_trim_next, cancelled, ret_bytes))
		return false;
	p->trim_released = false;
	(void)sensors_discards(&p->sensors, &p->trim_base_bytes);
	return true;
}

/* Returns what it took until the last of them. */
static uint64_t trim_wait(struct pacer *p, uint64_t trimmed)
{
	uint64_t began = now_usec(), now, moved = began, idle = began, done, bytes;
	uint64_t last = p->trim_base_bytes;

	while (true) {
		uint64_t in_flight = sensors_discards(&p->sensors, &bytes);

		now = now_usec();
		moved = bytes != last ? now : moved;
		last = bytes;
		idle = in_flight > 0 ? now : idle;
		done = bytes - p->trim_base_bytes;
		if (done >= trimmed || now - idle >= TRIM_LULL ||
		    (done >= trimmed / 10 * 9 && now - moved >= TRIM_ROUNDED))
			return moved - began;
		if (now - moved >= TRIM_STUCK)
			return (moved > began ? moved : now) - began;
		(void)usleep(DISCARD_POLL_USEC);
	}
}

uint64_t pacer_trim_end(struct pacer *p, uint64_t bytes, uint64_t cost_usec)
{
	if (bytes > 0)
		cost_usec += trim_wait(p, bytes);
	pthread_mutex_lock(&p->lock);
	if (p->trim_released)
		controller_begin(&p->controller);
	p->trim_released = false;
	controller_trim_spent(&p->controller, now_usec(), bytes, cost_usec);
	debug_log("trim: %" PRIu64 " bytes in %" PRIu64 " us (%s); next %" PRIu64
		  " bytes, in %" PRIu64 " us",
		  bytes, cost_usec, pacing_mode_name(p->controller.mode), p->controller.trim.limit,
		  p->controller.trim_not_before_usec -
			  MIN(p->controller.trim_not_before_usec, now_usec()));
	leave(p);
	pthread_mutex_unlock(&p->lock);
	return cost_usec;
}

void pacer_trim_release(struct pacer *p)
{
	pthread_mutex_lock(&p->lock);
	if (!p->trim_released)
		controller_trim_spent(&p->controller, now_usec(), 0, 0);
	p->trim_released = true;
	leave(p);
	pthread_mutex_unlock(&p->lock);
}

/* Lock held. */
static bool debt_matters(const struct pacer *p, const struct debt *d)
{
	const struct pacing_totals *t = &p->controller.totals;
	uint64_t entries = t->entries + p->foreign_entries, bytes = t->bytes + p->foreign_bytes;

	return d->discards ? discard_hold_matters(entries, bytes) : payer_matters(entries, bytes);
}

/* Lock held. */
static bool owes(const struct pacer *p)
{
	for (size_t i = 0; i < p->n_debts; i++)
		if (debt_matters(p, &p->debts[i]))
			return true;
	return false;
}

bool pacer_owes(struct pacer *p)
{
	bool r;

	pthread_mutex_lock(&p->lock);
	r = owes(p);
	pthread_mutex_unlock(&p->lock);
	return r;
}

/* Lock held. */
static void payers_start(struct pacer *p)
{
	const struct payer_turn turn = { debt_begin, debt_end, p };

	for (struct debt *d = p->debts; d < p->debts + p->n_debts; d++)
		/* Without the memory or a thread it is tried again with the next sample. */
		if (!d->discards && !d->payer && payer_new(&d->payer, d->device, &turn) >= 0)
			payer_work(d->payer);
}

/* Lock held, but not while a program is started, which may have to be read from a busy disk. */
static void holds_start(struct pacer *p)
{
	uint64_t target = controller_debt_target(&p->controller);

	for (struct debt *d = p->debts; d < p->debts + p->n_debts; d++) {
		struct discard_hold *hold = NULL;
		struct discard_request q = d->request;

		if (d->hold)
			discard_hold_target(d->hold, target);
		if (!d->discards || d->tried || !debt_matters(p, d))
			continue;
		d->tried = d->trying = true;
		q.target_usec = target;
		pthread_mutex_unlock(&p->lock);
		if (discard_hold_new(&hold, &q) < 0)
			debug_log("debt: the discards of btrfs %s are left as they are", q.uuid);
		pthread_mutex_lock(&p->lock);
		d->hold = hold;
		d->trying = false;
		pthread_cond_broadcast(&p->changed);
	}
}

static void *sampler(void *userdata)
{
	struct pacer *p = userdata;
	struct pacing_sample s;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		enum pacing_mode before = p->controller.mode;
		uint64_t not_before_usec = p->controller.not_before_usec;
		bool gap = p->controller.gap, told;
		uint64_t next = now_usec() + WAIT_MOST;

		if (p->canary_changes)
			canary_change(p);
		pthread_mutex_unlock(&p->lock);
		told = sensors_sample(&p->sensors, &s);
		pthread_mutex_lock(&p->lock);
		if (told) {
			peers_account(p, &s);
			if (p->o.trace)
				trace_sample(p->o.trace, &s);
			next = controller_sample(&p->controller, &s);
			decision_log_update(&p->log, &p->controller, p->devices.key, 0);
			canary_steer(p);
			step_publish(p);
		}
		if (owes(p)) {
			payers_start(p);
			holds_start(p);
		}
		if (before != p->controller.mode || gap != p->controller.gap ||
		    p->controller.not_before_usec < not_before_usec)
			pthread_cond_broadcast(&p->changed);
		while (!p->stop && !p->canary_changes && (p->suspended || now_usec() < next))
			cond_wait_until(&p->changed, &p->lock, p->suspended ? UINT64_MAX : next);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Lock held: asks the controller once, and waits if a slice may not begin yet. */
static bool begin_try(struct pacer *p, const struct waiting_lane *me, struct pacing_grant *ret)
{
	uint64_t now = now_usec();
	bool limited, mine = !p->owned && TAILQ_FIRST(&p->waiting) == me;

	*ret = controller_next(&p->controller, now);
	limited = ret->entries != PACING_UNLIMITED || ret->not_before_usec > now;
	if (!limited)
		return true;
	if (!mine || ret->not_before_usec > now) {
		/* The lane that becomes the first one is woken, and so at the end of a slice. */
		cond_wait_until(&p->changed, &p->lock,
				mine ? MIN(ret->not_before_usec, now + WAIT_MOST)
				     : now + WAIT_MOST);
		return false;
	}
	if (controller_yields(&p->controller)) {
		ret->not_before_usec = controller_yield_until(
			&p->controller, now, sensors_discards(&p->sensors, &(uint64_t){ 0 }));
		if (ret->not_before_usec > now) {
			cond_wait_until(&p->changed, &p->lock, ret->not_before_usec);
			return false;
		}
	}
	assert(!p->owned);
	p->owner = pthread_self();
	p->owned = true;
	return true;
}

static bool begin(void *userdata, const _Atomic bool *cancelled, struct pace_budget *ret)
{
	struct pacer *p = userdata;
	struct pacing_grant g = { 0 };
	struct waiting_lane me;
	bool granted = false, first;

	pthread_mutex_lock(&p->lock);
	TAILQ_INSERT_TAIL(&p->waiting, &me, link);
	while (!granted && !atomic_load(cancelled))
		granted = begin_try(p, &me, &g);
	first = TAILQ_FIRST(&p->waiting) == &me;
	TAILQ_REMOVE(&p->waiting, &me, link);
	if (first && !TAILQ_EMPTY(&p->waiting))
		pthread_cond_broadcast(&p->changed);
	if (granted) {
		if (p->o.discards && controller_is_between(&p->controller))
			(void)sensors_discards(&p->sensors, &p->discards.base_bytes);
		controller_begin(&p->controller);
		*ret = (struct pace_budget){ g.entries, g.bytes };
	}
	pthread_mutex_unlock(&p->lock);
	return granted;
}

static bool spent(void *userdata, uint64_t entries, uint64_t bytes, uint64_t cost_usec)
{
	struct pacer *p = userdata;
	bool needs_sync;

	pthread_mutex_lock(&p->lock);
	assert(p->controller.outstanding > 0);
	freed_add(p, entries, bytes);
	needs_sync = controller_spent(&p->controller, now_usec(), entries, bytes, cost_usec);
	if (p->o.trace)
		trace_work(p->o.trace, 'w', p->controller.mode, entries, bytes, cost_usec);
	if (!needs_sync)
		leave(p);
	pthread_mutex_unlock(&p->lock);
	return needs_sync;
}

/* Returns what it took. */
static uint64_t discards_wait(struct pacer *p, struct discard_wait *w, uint64_t freed)
{
	uint64_t bytes, in_flight = sensors_discards(&p->sensors, &bytes);

	discard_wait_begin(w, now_usec(), freed);
	while (discard_wait_poll(w, now_usec(), bytes, in_flight)) {
		(void)usleep(DISCARD_POLL_USEC);
		in_flight = sensors_discards(&p->sensors, &bytes);
	}
	return discard_wait_cost_usec(w);
}

static void synced(void *userdata, uint64_t cost_usec)
{
	struct pacer *p = userdata;
	struct discard_wait w;
	uint64_t freed;

	pthread_mutex_lock(&p->lock);
	freed = p->o.discards && p->controller.mode == PACING_PACED ? p->controller.bytes.used : 0;
	w = p->discards;
	pthread_mutex_unlock(&p->lock);
	if (freed > 0)
		cost_usec += discards_wait(p, &w, freed);
	pthread_mutex_lock(&p->lock);
	assert(p->controller.outstanding > 0);
	controller_synced(&p->controller, now_usec(), cost_usec);
	decision_log_update(&p->log, &p->controller, p->devices.key, cost_usec);
	step_publish(p);
	if (p->o.trace)
		trace_work(p->o.trace, 'y', p->controller.mode, p->controller.entries.limit,
			   p->controller.bytes.limit, cost_usec);
	leave(p);
	pthread_mutex_unlock(&p->lock);
}

static uint64_t step(void *userdata)
{
	struct pacer *p = userdata;

	return atomic_load_explicit(&p->step, memory_order_relaxed);
}

/* Has any process waited for I/O in the last seconds? The kernel answers before the first sample of
 * the device can. Where it does not know, one might have. */
static bool presume_busy(const char *proc)
{
	struct pressure_sample pressure;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/pressure/io", proc);
	return pressure_sample(path, &pressure) < 0 || pressure.recent;
}

/* ext2, ext3 and ext4 keep their metadata in the page cache of the device; btrfs discards later. */
static bool has_debt(const struct devices *d)
{
	const char *type = d->upper_type[0] ? d->upper_type : d->type;

	return d->b.n > 0 && d->b.v[0].top &&
	       (d->discards_async || strncmp(type, "ext", strlen("ext")) == 0);
}

static struct debt debt_of(const struct devices *d)
{
	struct debt debt = { .device = d->b.v[0].dev, .discards = d->discards_async };
	struct discard_request *q = &debt.request;

	memcpy(q->uuid, d->uuid, sizeof(q->uuid));
	for (size_t i = 0; i < d->b.n && q->n_disks < DISCARD_DISKS_MOST; i++)
		if (d->b.v[i].top)
			q->disks[q->n_disks++] = d->b.v[i].dev;
	return debt;
}

int pacer_new(struct pacer **ret, const struct pacer_options *o, int fd, int canary_dirfd)
{
	const char *sys = o->sys ? o->sys : "/sys", *proc = o->proc ? o->proc : "/proc";
	struct pacer *p = calloc(1, sizeof(*p));
	struct controller_options co;
	int r;

	*ret = NULL;
	if (!p)
		return -ENOMEM;
	p->o = *o;
	p->canary_dirfd = -1;
	p->pace = (struct pace){ begin, spent, synced, step, NULL, p };
	TAILQ_INIT(&p->waiting);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	r = devices_find(&p->devices, sys, proc, fd);
	if (r >= 0)
		sensors_open(&p->sensors, &p->devices, sys, canary_dirfd);
	/* Without a disk nothing is synced and no foreign I/O is seen: full speed, as ever. */
	if (r < 0 || (p->sensors.n_disks == 0 && !o->diskless)) {
		pacer_free(p);
		return r;
	}
	pacer_pay_for(p, &p->devices);
	co = (struct controller_options){
		.latency_usec = o->latency_usec,
		.rate_min = o->rate_min,
		.rate_max = o->rate_max,
		.observed = p->sensors.observed,
		.ignore_foreign = o->off || p->sensors.n_disks == 0,
		.served = p->devices.served,
		.presumed_busy = presume_busy(proc),
		.discards = o->discards,
		.reads_only = o->reads_only,
	};
	/* Not before: finding the devices takes a while, in which the controller has seen nothing.
	 */
	p->snapshot_usec = now_usec();
	if (o->trace)
		trace_options(o->trace, &co, p->snapshot_usec);
	controller_init(&p->controller, &co, p->snapshot_usec);
	decision_log_update(&p->log, &p->controller, p->devices.key, 0);
	step_publish(p);
	r = thread_start(&p->thread, sampler, p);
	p->started = r == 0;
	if (r < 0) {
		pacer_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void pacer_pay_for(struct pacer *p, const struct devices *d)
{
	size_t i = 0;

	pthread_mutex_lock(&p->lock);
	while (i < p->n_debts && p->debts[i].device != d->b.v[0].dev)
		i++;
	if (p->o.debt && has_debt(d) && i == p->n_debts && i < DEBTS_MOST)
		p->debts[p->n_debts++] = debt_of(d);
	pthread_mutex_unlock(&p->lock);
}

void pacer_owe(struct pacer *p, uint64_t entries, uint64_t bytes)
{
	pthread_mutex_lock(&p->lock);
	/* What a process claims about itself must not overflow. */
	p->foreign_entries = MAX(p->foreign_entries, MIN(entries, UINT64_MAX >> 16));
	p->foreign_bytes = MAX(p->foreign_bytes, MIN(bytes, UINT64_MAX >> 16));
	pthread_mutex_unlock(&p->lock);
}

void pacer_canary(struct pacer *p, int canary_dirfd)
{
	pthread_mutex_lock(&p->lock);
	fd_closep(&p->canary_dirfd);
	if (canary_dirfd >= 0)
		p->canary_dirfd = fcntl(canary_dirfd, F_DUPFD_CLOEXEC, 3);
	p->canary_changes = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void pacer_discards(struct pacer *p)
{
	pthread_mutex_lock(&p->lock);
	/* Between two quanta, what has been discarded so far is what the next one begins with. */
	if (!p->o.discards)
		(void)sensors_discards(&p->sensors, &p->discards.base_bytes);
	p->o.discards = true;
	controller_discards(&p->controller);
	step_publish(p);
	pthread_mutex_unlock(&p->lock);
}

/* Returns how many there may be; they stay until the pacer goes. start: makes those that are
 * missing. */
static size_t payers(struct pacer *p, bool start)
{
	size_t n;

	pthread_mutex_lock(&p->lock);
	if (start)
		payers_start(p);
	n = p->n_debts;
	pthread_mutex_unlock(&p->lock);
	return n;
}

static struct payer *payer_at(struct pacer *p, size_t i)
{
	struct payer *payer;

	pthread_mutex_lock(&p->lock);
	payer = p->debts[i].payer;
	pthread_mutex_unlock(&p->lock);
	return payer;
}

void pacer_settle_ask(struct pacer *p)
{
	size_t n = payers(p, true);

	for (size_t i = 0; i < n; i++)
		if (payer_at(p, i))
			payer_ask(payer_at(p, i));
}

/* Lock held: is what holds the discards of a btrfs being started? */
static bool is_trying(const struct pacer *p)
{
	bool trying = false;

	for (size_t i = 0; i < p->n_debts; i++)
		trying = trying || p->debts[i].trying;
	return trying;
}

/* Is what holds the discards of each btrfs started that they matter on? The sampler does that. */
static bool holds_are_tried(struct pacer *p)
{
	bool tried = true;

	pthread_mutex_lock(&p->lock);
	for (const struct debt *d = p->debts; d < p->debts + p->n_debts; d++)
		tried = tried && !d->trying && (d->tried || !d->discards || !debt_matters(p, d));
	pthread_mutex_unlock(&p->lock);
	return tried;
}

bool pacer_is_settled(struct pacer *p)
{
	size_t n = payers(p, false);
	bool settled = holds_are_tried(p);

	for (size_t i = 0; i < n; i++)
		settled = settled && (!payer_at(p, i) || payer_is_settled(payer_at(p, i)));
	return settled;
}

void pacer_settle(struct pacer *p, const _Atomic bool *cancelled)
{
	size_t n = payers(p, true);

	pthread_mutex_lock(&p->lock);
	holds_start(p);
	while (is_trying(p) && !(cancelled && atomic_load(cancelled)))
		cond_wait_until(&p->changed, &p->lock, now_usec() + WAIT_MOST);
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < n; i++)
		if (payer_at(p, i))
			payer_settle(payer_at(p, i), cancelled);
}

/* Lock held. */
static struct payer_view debt_sum(const struct pacer *p)
{
	struct payer_view sum = { 0 }, v;

	for (size_t i = 0; i < p->n_debts; i++) {
		const struct debt *d = &p->debts[i];

		sum.discards_held = discard_hold_works(d->hold) || sum.discards_held;
		if (!d->payer)
			continue;
		payer_snapshot(d->payer, &v);
		sum.owed_bytes += v.owed_bytes;
		sum.paid_bytes += v.paid_bytes;
		sum.steps += v.steps;
		sum.estimated = sum.estimated || v.estimated;
		sum.works = sum.works || v.works;
	}
	return sum;
}

void pacer_debt(struct pacer *p, struct payer_view *ret)
{
	pthread_mutex_lock(&p->lock);
	*ret = debt_sum(p);
	pthread_mutex_unlock(&p->lock);
}

struct pacer *pacer_free(struct pacer *p)
{
	if (!p)
		return NULL;
	if (p->started) {
		pthread_mutex_lock(&p->lock);
		p->stop = true;
		pthread_cond_broadcast(&p->changed);
		pthread_mutex_unlock(&p->lock);
		pthread_join(p->thread, NULL);
	}
	for (size_t i = 0; i < p->n_debts; i++) {
		payer_free(p->debts[i].payer);
		discard_hold_free(p->debts[i].hold);
	}
	assert(TAILQ_EMPTY(&p->waiting) && LIST_EMPTY(&p->peers.list));
	sensors_close(&p->sensors);
	fd_closep(&p->canary_dirfd);
	devices_done(&p->devices);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}

bool pacer_has_disks(const struct pacer *p)
{
	return p->sensors.n_disks > 0;
}

const struct pace *pacer_pace(struct pacer *p)
{
	return &p->pace;
}

uint64_t pacer_flush_from(struct pacer *p)
{
	uint64_t from;

	pthread_mutex_lock(&p->lock);
	from = controller_flush_from(&p->controller);
	pthread_mutex_unlock(&p->lock);
	return from;
}

void pacer_totals(struct pacer *p, struct pacing_totals *ret)
{
	pthread_mutex_lock(&p->lock);
	*ret = p->controller.totals;
	ret->written_back = debt_sum(p).paid_bytes;
	pthread_mutex_unlock(&p->lock);
}

void pacer_hour(struct pacer *p, struct latency_hour *to)
{
	pthread_mutex_lock(&p->lock);
	latency_hour_merge(to, &p->controller.hour);
	p->controller.hour = (struct latency_hour){ 0 };
	pthread_mutex_unlock(&p->lock);
}

void pacer_snapshot(struct pacer *p, struct pacer_view *ret)
{
	uint64_t now = now_usec();

	pthread_mutex_lock(&p->lock);
	*ret = (struct pacer_view){
		.devices = p->devices.key,
		.observed = p->sensors.observed,
		.entries = p->entries,
		.bytes = p->bytes,
		.elapsed_usec = now - p->snapshot_usec,
		.owed_bytes = debt_sum(p).owed_bytes,
	};
	controller_view(&p->controller, &ret->controller);
	p->entries = p->bytes = 0;
	p->snapshot_usec = now;
	pthread_mutex_unlock(&p->lock);
}

int pacer_peer_new(struct pacer *p, struct pacer_peer **ret, int *ret_sock, int *ret_page_fd)
{
	int r = peer_new(ret, &p->pace, ret_sock, ret_page_fd);

	if (r < 0)
		return r;
	pthread_mutex_lock(&p->lock);
	peers_add(&p->peers, *ret);
	step_publish(p);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

struct pacer_peer *pacer_peer_free(struct pacer *p, struct pacer_peer *peer)
{
	if (!peer)
		return NULL;
	pthread_mutex_lock(&p->lock);
	/* What it has done since the last sample counts, too. */
	peers_account(p, &(struct pacing_sample){ .now_usec = now_usec() });
	peers_remove(&p->peers, peer);
	pthread_mutex_unlock(&p->lock);
	peer_free(peer);
	return NULL;
}

void pacer_urgent(struct pacer *p, bool on)
{
	pthread_mutex_lock(&p->lock);
	controller_urgent(&p->controller, on);
	step_publish(p);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void pacer_suspend(struct pacer *p, bool on)
{
	pthread_mutex_lock(&p->lock);
	p->suspended = on;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void pacer_limits(struct pacer *p, uint64_t latency_usec, uint64_t rate_min, uint64_t rate_max)
{
	pthread_mutex_lock(&p->lock);
	controller_limits(&p->controller, latency_usec, rate_min, rate_max);
	step_publish(p);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}
