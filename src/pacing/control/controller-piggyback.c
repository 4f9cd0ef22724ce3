/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which quanta go along with foreign commits instead of being synced. */
#include <assert.h>
#include <math.h>

#include "controller-state.h"

/* Commits fade over so long. */
#define MEMORY (500 * USEC_PER_MSEC)
/* With fewer in a second, what is done waits too long for one. */
#define COMMITS_LEAST 5.0
#define COMMITS_FREQUENT 40.0
/* A quantum for each of a thousand commits a second would be nothing but work. */
#define PERIOD_LEAST (5 * USEC_PER_MSEC)

/* What goes along with one of frequent commits: an eighth of it or less is then ours. */
#define PARTS 4

/* Syncs of ours that only measure: so often, and where a sync takes long so seldom that a process
 * that syncs ten times a second meets one of ours, and the canary that follows, less than once in a
 * hundred times. */
#define MEASURE_EVERY USEC_PER_SEC
#define MEASURE_TIMES 400

void piggyback_sample(struct piggyback *p, uint64_t commits, uint64_t elapsed_usec)
{
	p->commits = p->commits * exp(-(double)elapsed_usec / MEMORY) + (double)commits - p->own;
	p->own = 0;
}

static double commits_per_second(const struct controller *c)
{
	return c->piggyback.commits * ((double)USEC_PER_SEC / MEMORY);
}

/* Do other processes commit so often that a quantum in parts can go along, one with each commit? */
static bool commits_are_frequent(const struct controller *c)
{
	return commits_per_second(c) >= COMMITS_FREQUENT;
}

uint64_t measure_every(const struct controller *c)
{
	return MAX(MEASURE_EVERY, MEASURE_TIMES * quiet_sync(c));
}

bool canary_is_next(const struct controller *c, uint64_t now)
{
	return c->canaries.n > 0 && now >= c->canary_next_usec &&
	       now - c->phase_since_usec >= BURST / 2;
}

/* What is discarded after a commit is waited for, and so the commit has to be ours. Where commits
 * are few, each takes a whole quantum along: of large files on a disk with a head, for which a
 * commit costs its seeks, and hardly more with the few blocks that so much freed space changes. */
bool piggybacks(const struct controller *c)
{
	if (c->growing || c->o.discards)
		return false;
	return commits_are_frequent(c) ||
	       (commits_per_second(c) >= COMMITS_LEAST && c->large_files && controller_yields(c));
}

bool quantum_piggybacks(const struct controller *c, uint64_t now)
{
	return piggybacks(c) && !canary_is_next(c, now) &&
	       (c->canaries.n > 0 || now - c->synced_usec < MEASURE_EVERY);
}

unsigned piggyback_parts(const struct controller *c, uint64_t now)
{
	return quantum_piggybacks(c, now) && commits_are_frequent(c) ? PARTS : 1;
}

/* The next quantum begins after that commit: where commits are few, as soon as it is seen, when the
 * one that follows is farthest away; and while the rate has a floor, not later than that allows. */
void piggyback_quantum_end(struct controller *c, uint64_t now)
{
	uint64_t period =
		MAX((uint64_t)(USEC_PER_SEC / MAX(commits_per_second(c), 1.0)), PERIOD_LEAST);
	uint64_t wait = period - MIN(c->work_usec, period);
	uint64_t latest = now + quantum_cooldown_most(c, c->work_usec), next;

	assert(!controller_is_between(c));
	c->cooldown_until_usec = cooldown_from(c, now) + quantum_cooldown(c, now, c->work_usec);
	next = MAX(c->cooldown_until_usec, now + wait) + (commits_are_frequent(c) ? 0 : period);
	c->not_before_usec = MAX(c->cooldown_until_usec, MIN(next, latest));
	/* The last quantum before a canary is synced, and there has to be one. What is left of this
	 * one's rest follows behind that. */
	if (now >= c->canary_next_usec)
		c->not_before_usec = MIN(c->not_before_usec, c->phase_since_usec + BURST / 2);
	c->piggybacked = true;
	quantum_end(c);
}

void piggyback_foreign_commit(struct controller *c, uint64_t now)
{
	if (c->piggybacked && !commits_are_frequent(c) && controller_is_between(c))
		c->not_before_usec = MIN(c->not_before_usec, MAX(c->cooldown_until_usec, now));
}
