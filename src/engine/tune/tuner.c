/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* A rate is taken over a window; the first after a change only settles (threads start, caches are
 * handed over). 40 ms hold some hundred entries of anything that does not seek for each. */
#define WINDOW (40 * USEC_PER_MSEC)

/* Lanes that do next to nothing but wait can be told sooner, and then small steps would
 * take longer than the work: 200 cold directories on a disk are a second for one lane. A waiting
 * lane costs nothing, so the first try is a leap. */
#define LEAP_WINDOW (10 * USEC_PER_MSEC)
#define LEAP 16
#define LEAP_BUSY 0.25

/* A leap may go too far. That costs this run nothing, and much elsewhere: where a server's client
 * has ten requests under way, each of 64 lanes waits six times as long as one of ten. Meanwhile it
 * holds the lock of a directory in which other lanes have to look, and what it has begun cannot be
 * given to another host. So fewer lanes are tried at once, down to those that the run began with.
 * They are kept if they are as fast, as so many entries tell. */
#define SHRINK_ENTRIES 300
#define SHRINK_SAME 0.95

/* What an operation takes is told by so many of them, or by so much time. With one lane they take
 * long, and differ little from each other; the first judgement is of fewer still, as all others
 * wait for it: 40 were a sixth of the time of 64 directories of 25 behind 1 ms. And after so many
 * those that began under the setting before are over. */
#define OP_ENTRIES 100
#define OP_ENTRIES_ALONE 40
#define OP_ENTRIES_FIRST 16
#define OP_ENTRIES_SETTLE 20
#define OP_WINDOW (500 * USEC_PER_MSEC)

/* A trial whose operations take about as long as they may goes on for so many windows: what one
 * says of that differs by a fifth from what the next says. */
#define OP_WINDOWS 4

/* How far more lanes go at first where it is bounded. */
#define OP_LEAP 8

/* So many windows in a row have to say that operations take too long: one is a moment's. */
#define OP_LONG 3

/* More lanes that made operations too long are tried again after a while, which doubles each time:
 * the first may have been another process's doing, and later ones would slow down foreign I/O. */
#define OP_RETRY (500 * USEC_PER_MSEC)
#define OP_RETRY_MOST (60 * USEC_PER_SEC)

/* So many times what it takes alone may an operation take. An unlink is several requests, and makes
 * several threads run on the same CPUs; a foreign request is one. On MooseFS 1 ms away, with 8,
 * 10 and 12 lanes an operation took 1.2, 1.5 and 1.7 times as long, and of another process's stats,
 * the one in a hundred that takes longest 1.1, 1.25 and 1.6 times.
 *
 * So much of that, for more lanes to be kept, as the next moment may be a worse one. Up to so many
 * times that, one window says nothing; from so many times on, the first says all. And so much of
 * what it took with more lanes, for that to be their doing. */
#define OP_MOST 1.5
#define OP_KEEP 0.92
#define OP_DOUBT 1.2
#define OP_HOPELESS 1.5
#define OP_RELIEF 0.85

/* A trial pays if it is so much faster: less is noise. */
#define GAIN 1.10

/* The part of all time that trials in vain may cost: 2 %, so that `auto` stays within 5 % of its
 * better backend with room for noise. */
#define REGRET 50

/* After a vain trial, how long until the same is tried again; it doubles nothing, the regret bound
 * does that. */
#define RETRY (20 * USEC_PER_SEC)

/* Lanes that wait for a disk read at least one block of 4 KiB in 10 ms, or it is not the disk. */
#define READ_SECTORS 8
#define READ_EVERY (10 * USEC_PER_MSEC)

/* Below this share of computing, lanes are said to wait. */
#define WAITING 0.5

/* For so long what was found out holds for the next run: the same tree's next part, or the next of
 * many small ones. Who else uses the server is another thing a minute later. */
#define KEPT (30 * USEC_PER_SEC)

enum neighbour { MORE, FEWER, OTHER_BACKEND, NEIGHBOURS };

void tuner_init(struct tuner *t, const struct tuner_options *o)
{
	*t = (struct tuner){
		.o = *o,
		.best = o->start,
		.now = o->start,
		.settling = true,
		.fresh = true,
	};
}

static bool same_options(const struct tuner_options *a, const struct tuner_options *b)
{
	return a->filesystem == b->filesystem && a->op_usec == b->op_usec &&
	       a->lanes_max == b->lanes_max && a->cpus == b->cpus &&
	       a->fixed_backend == b->fixed_backend && a->fixed_lanes == b->fixed_lanes &&
	       setting_pack(a->start) == setting_pack(b->start);
}

void tuner_begin(struct tuner *t, const struct tuner_options *o, uint64_t now_usec)
{
	/* A local tree may be in the cache where the one before was not. */
	if (t->ended_usec == 0 || now_usec < t->ended_usec || now_usec - t->ended_usec > KEPT ||
	    !o->remote || !t->o.remote || !same_options(o, &t->o)) {
		tuner_init(t, o);
		return;
	}
	/* What was lost in trials is a part of the time of the runs, not of that between them. */
	if (t->began_usec > 0)
		t->began_usec += now_usec - t->ended_usec;
	t->settling = t->unseen = true;
	/* Directories differ: what the next window says is the measure, except of a trial under
	 * way. */
	if (!t->trying)
		t->best_rate = t->best_op = 0;
}

void tuner_end(struct tuner *t, uint64_t now_usec)
{
	t->ended_usec = now_usec;
}

struct tuner *tuner_new(void)
{
	return calloc(1, sizeof(struct tuner));
}

struct tuner *tuner_free(struct tuner *t)
{
	free(t);
	return NULL;
}

/* How many lanes to try beyond the best so far. Where what an operation takes is bounded, that is
 * halfway to those that were too many, until it makes no difference worth a trial. */
static unsigned more_lanes(const struct tuner *t)
{
	unsigned best = t->best.lanes, leap = t->o.op_usec ? OP_LEAP : LEAP;
	unsigned more = MIN(best * (t->leap ? leap : 2), t->o.lanes_max);

	if (t->too_many == 0)
		return more;
	more = (best + t->too_many) / 2;
	return (more - best) * 4 >= best ? more : best;
}

/* What an operation may take. */
static double op_most(const struct tuner *t)
{
	if (t->o.op_usec == 0)
		return INFINITY;
	return t->o.op_usec == TUNER_OP_AUTO ? t->alone_op * OP_MOST : (double)t->o.op_usec;
}

static bool neighbour(const struct tuner *t, enum neighbour which, bool waiting,
		      struct setting *ret)
{
	struct setting s = t->best;

	switch (which) {
	case MORE:
		s.lanes = more_lanes(t);
		if (t->o.fixed_lanes || (!waiting && s.lanes > t->o.cpus) ||
		    t->best_op > op_most(t))
			return false;
		break;
	case FEWER:
		s.lanes = MAX(s.lanes / 2, 1U);
		if (t->o.fixed_lanes)
			return false;
		break;
	case OTHER_BACKEND:
		if (t->o.fixed_backend || (s.backend == BACKEND_THREADS && !t->o.uring_possible))
			return false;
		/* Lanes that compute gain nothing from a ring: it adds a wake-up to each entry. */
		if (s.backend == BACKEND_THREADS && !waiting)
			return false;
		s.backend = s.backend == BACKEND_THREADS ? BACKEND_URING : BACKEND_THREADS;
		break;
	case NEIGHBOURS:
		return false;
	}
	*ret = s;
	return setting_pack(s) != setting_pack(t->best);
}

/* Is a trial in vain as soon as it begins? */
static bool op_hopeless(const struct tuner *t, double op)
{
	return t->trying && !t->relief && op > op_most(t) * OP_HOPELESS;
}

/* Should the window of a trial go on, as it says neither yes nor no? */
static bool op_doubtful(const struct tuner *t, uint64_t entries, double op)
{
	if (!t->trying || t->relief || t->settling || entries >= OP_WINDOWS * OP_ENTRIES)
		return false;
	return op > op_most(t) * OP_KEEP && op < op_most(t) * OP_DOUBT;
}

/* Starts a trial of fewer lanes, which need not pay. */
static void relief_begin(struct tuner *t)
{
	t->now = t->best;
	t->now.lanes = MAX(t->best.lanes / 2, 1U);
	t->tried = MORE; /* which is not to be tried again at once */
	t->trying = t->relief = true;
	t->long_windows = 0;
	t->why = "operations take too long: trial of fewer lanes";
}

static void op_more_later(struct tuner *t, uint64_t now)
{
	t->op_retry_usec = CLAMP(t->op_retry_usec * 2, OP_RETRY, OP_RETRY_MOST);
	t->retry_usec[MORE] = now + t->op_retry_usec;
}

/* If all between the best and what was too much has been tried, more are tried later, and then far
 * more. */
static void op_settle(struct tuner *t, uint64_t now)
{
	if (t->too_many == 0 || more_lanes(t) > t->best.lanes)
		return;
	t->too_many = 0;
	op_more_later(t, now);
}

static void relief_end(struct tuner *t, uint64_t now, double rate, double op)
{
	t->trying = t->relief = false;
	t->too_many = 0;
	t->why = "fewer lanes make no operation shorter: back";
	if (t->o.op_usec == TUNER_OP_AUTO && op > t->best_op * OP_RELIEF) {
		t->alone_op = MAX(t->alone_op, op);
		t->now = t->best;
		return;
	}
	t->best = t->now;
	t->best_rate = rate;
	t->best_op = op;
	op_more_later(t, now);
}

/* After a leap: half of the lanes, once what all of them bring is known. */
static void shrink_next(struct tuner *t, uint64_t now)
{
	if (t->shrink == 1) {
		t->shrink = 2;
		return;
	}
	if (t->best.lanes / 2 < t->o.start.lanes) {
		t->shrink = 0;
		t->retry_usec[MORE] = now + RETRY;
		return;
	}
	t->now.lanes = t->best.lanes / 2;
	t->tried = FEWER;
	t->trying = true;
	t->why = "trial of fewer lanes after a leap";
}

static void shrink_end(struct tuner *t, uint64_t now, double rate, double op)
{
	t->trying = false;
	if (rate >= t->best_rate * SHRINK_SAME) {
		t->best = t->now;
		t->best_rate = MAX(rate, t->best_rate);
		t->best_op = op;
		return;
	}
	t->shrink = 0;
	t->retry_usec[FEWER] = now + RETRY;
	t->now = t->best;
	t->why = "fewer lanes are slower: back";
}

/* Starts the next trial that is allowed, if any. */
static void trial_begin(struct tuner *t, uint64_t now, bool waiting)
{
	/* What a trial in vain may cost at most: two windows. A waiting job gains so much from more
	 * lanes that it need not save up first. */
	uint64_t cost = 2 * WINDOW;

	if (t->shrink > 0) {
		shrink_next(t, now);
		return;
	}
	for (unsigned n = 0; n < NEIGHBOURS; n++) {
		struct setting s;
		bool urgent = waiting && n == MORE;

		if (!neighbour(t, (enum neighbour)n, waiting, &s) || now < t->retry_usec[n])
			continue;
		if (!urgent && (t->lost_usec + cost) * REGRET > now - t->began_usec)
			continue;
		t->now = s;
		t->tried = n;
		t->trying = true;
		t->why = n == MORE    ? "trial of more lanes"
			 : n == FEWER ? "trial of fewer lanes"
				      : "trial of the other backend";
		return;
	}
}

/* Judges the setting that was tried. */
static void trial_end(struct tuner *t, uint64_t now, uint64_t spent, double rate, double op)
{
	t->trying = false;
	if (rate > t->best_rate * GAIN && op / OP_KEEP <= op_most(t)) {
		if (t->o.remote && t->o.op_usec == 0 && t->now.lanes > 2 * t->best.lanes)
			t->shrink = 1;
		t->best = t->now;
		t->best_rate = rate;
		t->best_op = op;
		/* The neighbourhood is a new one. */
		memset(t->retry_usec, 0, sizeof(t->retry_usec));
		op_settle(t, now);
		return;
	}
	t->why = "the trial did not pay: back";
	/* A trial that was half as fast lost half of its time. */
	if (rate < t->best_rate)
		t->lost_usec += (uint64_t)((double)spent * (1 - rate / t->best_rate));
	if (t->o.op_usec == 0 || t->tried != MORE) {
		t->retry_usec[t->tried] = now + RETRY;
		t->now = t->best;
		return;
	}
	t->too_many = t->now.lanes;
	op_settle(t, now);
	/* Halfway back at once: another look at the best would tell nothing new. */
	t->trying = t->too_many != 0;
	t->why = t->trying ? "operations took too long: halfway back" : t->why;
	t->now = t->best;
	t->now.lanes = t->trying ? more_lanes(t) : t->best.lanes;
}

void tuner_bound(struct tuner *t, uint64_t op_usec)
{
	if (t->o.op_usec == op_usec)
		return;
	t->o.op_usec = op_usec;
	/* What was too much may not be so any more. */
	t->too_many = 0;
	memset(t->retry_usec, 0, sizeof(t->retry_usec));
}

/* True if the lanes of this window computed for less than `share` of the time that they and the
 * CPUs had, and what they waited for were answers of a disk or a server. */
static bool waited(const struct tuner *t, const struct tuner_sample *s, double share)
{
	uint64_t spent = s->now_usec - t->window.now_usec;
	double had = (double)spent * MIN(t->now.lanes, t->o.cpus);

	if (!t->o.remote && (s->reads - t->window.reads) * READ_EVERY < spent * READ_SECTORS)
		return false;
	return (double)(s->cpu_usec - t->window.cpu_usec) < had * share;
}

struct setting tuner_without_ring(struct tuner *t)
{
	t->o.uring_possible = false;
	t->trying = false;
	t->best.backend = BACKEND_THREADS;
	t->why = "no io_uring here";
	t->now = t->best;
	return t->now;
}

/* So many entries make a window in which it is seen what operations take. */
static uint64_t op_entries(const struct tuner *t)
{
	if (t->fresh)
		return OP_ENTRIES_FIRST;
	if (t->settling)
		return OP_ENTRIES_SETTLE;
	return t->now.lanes == 1 ? OP_ENTRIES_ALONE : OP_ENTRIES;
}

/* Is the window long enough to tell something? */
static bool window_full(const struct tuner *t, const struct tuner_sample *s)
{
	uint64_t spent = s->now_usec - t->window.now_usec;

	if (spent < LEAP_WINDOW)
		return false;
	if (t->shrink > 0)
		return s->entries - t->window.entries >= SHRINK_ENTRIES || spent >= OP_WINDOW;
	if (t->o.op_usec)
		return s->entries - t->window.entries >= op_entries(t) || spent >= OP_WINDOW;
	return spent >= WINDOW || (t->fresh && waited(t, s, LEAP_BUSY));
}

/* What each operation of a window took. A ring's are not timed one by one: lanes x time / entries
 * (Little's law). If none came to its end, that is long. */
static double op_took(const struct tuner *t, const struct tuner_sample *s)
{
	double spent = (double)(s->now_usec - t->window.now_usec);

	if (s->ops > t->window.ops)
		return (double)(s->op_usec - t->window.op_usec) / (double)(s->ops - t->window.ops);
	if (s->entries > t->window.entries)
		return t->now.lanes * spent / (double)(s->entries - t->window.entries);
	return spent;
}

/* Takes a window of what is used now, or of what is tried. */
static void judge(struct tuner *t, uint64_t now, uint64_t spent, double rate, double op)
{
	/* Fewer than it began with: what then is least. */
	if (t->alone_op <= 0 || op < t->alone_op / OP_MOST)
		t->alone_op = op;
	else if (t->now.lanes == 1)
		t->alone_op += (op - t->alone_op) / 4;
	if (t->relief) {
		relief_end(t, now, rate, op);
	} else if (t->trying && t->shrink > 0) {
		shrink_end(t, now, rate, op);
	} else if (t->trying) {
		trial_end(t, now, 2 * spent, rate, op);
	} else {
		t->best_rate =
			t->best_rate > 0 && t->shrink == 0 ? (t->best_rate + rate) / 2 : rate;
		t->best_op = t->best_op > 0 ? (t->best_op + op) / 2 : op;
		t->long_windows = op > op_most(t) ? t->long_windows + 1 : 0;
	}
}

struct setting tuner_next(struct tuner *t, const struct tuner_sample *s)
{
	uint64_t spent = s->now_usec - t->window.now_usec;
	struct setting before = t->now;
	bool waiting, idle;
	double rate, op;

	if (t->began_usec == 0) {
		t->began_usec = s->now_usec;
		t->unseen = true;
	}
	if (t->unseen || s->starved || s->now_usec < t->window.now_usec) {
		/* There is nothing to measure, or was not, or the clock went back: begin again. */
		t->window = *s;
		t->unseen = s->starved;
		return t->now;
	}
	if (!window_full(t, s))
		return t->now;
	rate = (double)(s->entries - t->window.entries) * USEC_PER_SEC / (double)spent;
	op = op_took(t, s);
	if (op_doubtful(t, s->entries - t->window.entries, op))
		return t->now;
	waiting = waited(t, s, WAITING);
	idle = waited(t, s, LEAP_BUSY);
	t->window = *s;
	if (t->settling && !(t->fresh && idle) && !op_hopeless(t, op)) {
		t->settling = t->fresh = false;
		return t->now;
	}
	t->leap = t->fresh && idle;
	t->fresh = false;
	judge(t, s->now_usec, spent, rate, op);
	if (!t->trying && setting_pack(t->now) == setting_pack(before)) {
		if (t->long_windows >= OP_LONG && t->best.lanes > 1 && !t->o.fixed_lanes)
			relief_begin(t);
		else
			trial_begin(t, s->now_usec, waiting);
	}
	t->settling = setting_pack(t->now) != setting_pack(before);
	return t->now;
}
