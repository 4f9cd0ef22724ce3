/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "controller-state.h"
#include "base/macros.h"

/* Entries of so many bytes are large files. */
#define FILE_LEAST MiB(4)

/* What goes along with one of others' frequent commits: an eighth of it or less is then ours. */
#define PARTS 4

/* Syncs of ours that only measure: so often, and where a sync takes long so seldom that who syncs
 * ten times a second meets one of ours, and the canary that follows, not once in a hundred times.
 */
#define MEASURE_EVERY USEC_PER_SEC
#define MEASURE_TIMES 400

uint64_t measure_every(const struct controller *c)
{
	return MAX(MEASURE_EVERY, MEASURE_TIMES * quiet_sync(c));
}

bool canary_is_next(const struct controller *c, uint64_t now)
{
	return c->canaries.n > 0 && now >= c->canary_next_usec &&
	       now - c->phase_since_usec >= BURST / 2;
}

bool are_large_files(uint64_t entries, uint64_t bytes)
{
	return bytes >= entries * FILE_LEAST;
}

/* What is discarded after a commit is waited for, and so the commit has to be ours. Where they are
 * few, each takes a whole piece along: of large files on a disk with a head, for which a commit
 * costs its seeks, and hardly more with the few blocks that so much freed space changes. */
bool piggybacks(const struct controller *c)
{
	if (c->growing || c->o.discards)
		return false;
	return piggyback_is_frequent(&c->piggyback) ||
	       (piggyback_is_possible(&c->piggyback) && c->large_files && controller_yields(c));
}

bool quantum_piggybacks(const struct controller *c, uint64_t now)
{
	return piggybacks(c) && !canary_is_next(c, now) &&
	       (c->canaries.n > 0 || now - c->synced_usec < MEASURE_EVERY);
}

unsigned piggyback_parts(const struct controller *c, uint64_t now)
{
	return quantum_piggybacks(c, now) && piggyback_is_frequent(&c->piggyback) ? PARTS : 1;
}

/* The next piece begins after that commit: where they are few, as soon as it is seen, when the one
 * that follows is farthest away; and while the rate has a floor, not later than that allows. */
void piggyback_quantum_end(struct controller *c, uint64_t now)
{
	uint64_t period = piggyback_period_usec(&c->piggyback),
		 wait = period - MIN(c->work_usec, period);
	uint64_t latest = now + quantum_cooldown_most(c, c->work_usec), next;

	c->cooldown_until_usec = cooldown_from(c, now) + quantum_cooldown(c, now, c->work_usec);
	next = MAX(c->cooldown_until_usec, now + wait) +
	       (piggyback_is_frequent(&c->piggyback) ? 0 : period);
	c->not_before_usec = MAX(c->cooldown_until_usec, MIN(next, latest));
	/* The last piece before a canary is synced, and there has to be one. What this one had to
	 * rest follows behind that. */
	if (now >= c->canary_next_usec)
		c->not_before_usec = MIN(c->not_before_usec, c->phase_since_usec + BURST / 2);
	c->piggybacked = true;
	quantum_end(c);
}

void piggyback_foreign_commit(struct controller *c, uint64_t now)
{
	if (c->piggybacked && !piggyback_is_frequent(&c->piggyback) && controller_is_between(c))
		c->not_before_usec = MIN(c->not_before_usec, MAX(c->cooldown_until_usec, now));
}
