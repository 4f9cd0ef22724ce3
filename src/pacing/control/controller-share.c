/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "controller-state.h"

#define SHARE_FIRST 0.5
#define SHARE_LEAST 0.1
#define SHARE_UNREAD 0.8 /* without foreign reads */
#define SHARE_MOST 0.95
/* Of readings: a request of ours moves the head away from a foreign one's place, and one foreign
 * sync is several requests, of which ours is to meet one at most. */
#define SHARE_READING 0.25
#define SHARE_EVERY (400 * USEC_PER_MSEC)
/* How much slower the mean foreign read may be in bursts than in gaps, as a share of it or in
 * microseconds, whichever is more: up to the first it goes unnoticed; above the second it is too
 * much. */
#define SLOWER_FINE 0.15
#define SLOWER_FINE_USEC 100
#define SLOWER_MOST 0.4
#define SLOWER_MOST_USEC 300
#define FADE 0.85
#define READS_ENOUGH 4.0
/* A database that writes its log in one place flushes a hundred times a second and more, and waits
 * a millisecond or two where a sync of ours takes a seek. A quantum of any size makes it wait for
 * that seek: how seldom is all there is to choose. Below these the size of quanta does it. */
#define FLUSHES_ENOUGH 20.0
#define SHORT_TIMES 4.0
#define SEEK (5 * USEC_PER_MSEC)
#define SHARE_SHORT_SYNCS 0.05

double foreign_reads(const struct controller *c, const struct pacing_sample *s,
		     const struct pacing_sample *then)
{
	double sectors = (double)(s->read_sectors - then->read_sectors);

	return (sectors - (double)(s->own_sectors - then->own_sectors)) / c->read_size;
}

/* So many of `all` requests are foreign. Ours and theirs wait in the same queue: the mean of all is
 * that of theirs. */
static void waits_add(struct pacing_waits *w, double foreign, double all, double usec)
{
	w->count *= FADE;
	w->usec *= FADE;
	if (all <= 0 || foreign <= 0)
		return;
	w->count += foreign;
	w->usec += usec / all * foreign;
}

void reads_add(const struct controller *c, struct pacing_waits *w, const struct pacing_sample *s,
	       const struct pacing_sample *then)
{
	waits_add(w, foreign_reads(c, s, then), (double)(s->reads - then->reads),
		  (double)(s->read_usec - then->read_usec));
}

void flushes_add(struct pacing_waits *w, const struct pacing_sample *s,
		 const struct pacing_sample *then)
{
	double n = (double)(s->flushes - then->flushes);

	waits_add(w, s->flush_usec >= then->flush_usec ? n : 0, n,
		  (double)(s->flush_usec - then->flush_usec));
}

double waits_mean(const struct pacing_waits *w)
{
	return w->count >= 1 ? w->usec / w->count : 0;
}

static bool foreign_syncs_are_short(const struct controller *c)
{
	double mean = waits_mean(&c->flushes);

	return c->flushes.count >= FLUSHES_ENOUGH && c->canaries.n > 0 && mean > 0 &&
	       mean * SHORT_TIMES + SEEK <= (double)quiet_sync(c);
}

static double share_most(const struct controller *c)
{
	if (c->o.latency_usec)
		return SHARE_MOST;
	if (foreign_syncs_are_short(c))
		return SHARE_SHORT_SYNCS;
	return c->o.reads_only ? SHARE_READING : SHARE_MOST;
}

double share_first(const struct controller *c)
{
	return MIN(SHARE_FIRST, share_most(c));
}

void share_adjust(struct controller *c, uint64_t now_usec)
{
	double quiet = waits_mean(&c->in_gap), slower = waits_mean(&c->in_burst) - quiet;

	if (now_usec - c->share_changed_usec < SHARE_EVERY)
		return;
	if (c->in_gap.count < READS_ENOUGH || c->in_burst.count < READS_ENOUGH || quiet <= 0) {
		/* No foreign reads: only syncs are waited for, and the size of quanta bounds those.
		 */
		c->share = MIN(c->share + 0.02, MIN(SHARE_UNREAD, share_most(c)));
		c->share_changed_usec = now_usec;
		return;
	}
	if (c->o.latency_usec && quiet + slower <= (double)c->o.latency_usec)
		slower = 0;
	if (slower > MAX(quiet * SLOWER_MOST, SLOWER_MOST_USEC)) {
		c->share = MIN(MAX(c->share * 0.75, SHARE_LEAST), share_most(c));
		c->totals.backoffs[BACKOFF_READS]++;
	} else if (slower < MAX(quiet * SLOWER_FINE, SLOWER_FINE_USEC)) {
		c->share = MIN(c->share + 0.05, share_most(c));
	} else if (c->share > share_most(c)) {
		c->share = share_most(c);
	} else {
		return;
	}
	c->share_changed_usec = now_usec;
}
