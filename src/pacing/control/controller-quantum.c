/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How large a quantum may be. */
#include <assert.h>
#include <string.h>

#include "controller-state.h"

/* A quantum may exceed a sync with nothing freed by a half: a process whose own syncs sometimes
 * meet those of another has such delays anyway. And by this much where syncs are so short that a
 * half is noise. */
#define EXCESS_SHARE 0.5
#define EXCESS_LEAST 500.0
/* Not known yet what a sync costs: what it takes on a disk, a seek and a turn. */
#define SYNC_UNKNOWN (10 * USEC_PER_MSEC)

/* Quanta: from what was measured as unnoticeable on a disk that discards slowly, up to what one
 * call frees at most. */
#define BYTES_FIRST MiB(8)
#define BYTES_FIRST_DISCARD MiB(2)
#define BYTES_LEAST MiB(1)
#define BYTES_MOST (MiB(1024) * 16)
#define ENTRIES_FIRST 64
#define ENTRIES_LEAST 16
#define ENTRIES_MOST 16384
#define CUT_EVERY 4

/* A quantum that takes so many times what its sync takes need not be larger: that would only save
 * syncs, of which there are few by then, and foreign syncs pay for what is not yet committed. */
#define WORTH_A_SYNC 8

uint64_t quantum_left(const struct quantum_size *s, unsigned parts)
{
	uint64_t limit = MAX(s->limit / parts, 1ULL);

	return limit - MIN(s->used, limit - 1);
}

bool quantum_is_full(const struct quantum_size *s, unsigned parts)
{
	uint64_t limit = s->limit / parts;

	return s->used >= limit - limit / 16;
}

static void quantum_bound(struct quantum_size *s, uint64_t most)
{
	s->most = MAX(most, s->least);
	s->limit = MIN(s->limit, s->most);
}

/* Under a ceiling a quantum is no more than a second of it: after a large one it would rest for as
 * long as that. */
void quanta_bound(struct controller *c)
{
	uint64_t bytes = c->o.discards ? FAST_DISCARD : BYTES_MOST, second = c->o.rate_max;

	quantum_bound(&c->bytes, second ? MIN(bytes, second) : bytes);
	quantum_bound(&c->entries,
		      second ? MIN((uint64_t)ENTRIES_MOST, second / ENTRY_WORTH) : ENTRIES_MOST);
}

void quanta_init(struct controller *c)
{
	uint64_t first = c->o.discards ? BYTES_FIRST_DISCARD : BYTES_FIRST;

	c->entries = (struct quantum_size){ ENTRIES_FIRST, ENTRIES_LEAST, ENTRIES_MOST, 0 };
	c->bytes = (struct quantum_size){ first, BYTES_LEAST, BYTES_MOST, 0 };
	quanta_bound(c);
}

static void quantum_scale(struct quantum_size *s, double by)
{
	double limit = (double)s->limit * by;

	s->limit = (uint64_t)CLAMP(limit, (double)s->least, (double)s->most);
	assert(s->limit >= s->least && s->limit <= s->most);
}

void window_add(struct cost_window *w, unsigned size, uint64_t v)
{
	assert(size <= PACING_CANARIES && w->next < size);
	w->v[w->next] = v;
	w->next = (w->next + 1) % size;
	w->n = MIN(w->n + 1, size);
}

/* The value that `rank` others are below; 0 if there are none. */
static uint64_t ranked(const struct cost_window *w, unsigned rank)
{
	uint64_t v[PACING_CANARIES];

	if (w->n == 0)
		return 0;
	assert(rank < w->n && w->n <= PACING_CANARIES);
	memcpy(v, w->v, sizeof(v));
	for (unsigned i = 1; i < w->n; i++)
		for (unsigned j = i; j > 0 && v[j - 1] > v[j]; j--) {
			uint64_t t = v[j];

			v[j] = v[j - 1];
			v[j - 1] = t;
		}
	return v[rank];
}

uint64_t window_median(const struct cost_window *w)
{
	return ranked(w, w->n / 2);
}

/* ---- the target ----------------------------------------------------------------------------- */

uint64_t quiet_sync(const struct controller *c)
{
	return c->canaries.n > 0 ? ranked(&c->canaries, c->canaries.n / 4) : c->cheapest_usec;
}

double sync_target(const struct controller *c)
{
	double quiet = (double)quiet_sync(c);

	if (c->o.latency_usec)
		return MAX((double)c->o.latency_usec, quiet);
	if (quiet <= 0)
		return SYNC_UNKNOWN;
	return quiet + MAX(quiet * EXCESS_SHARE, EXCESS_LEAST);
}

/* A quantum of a large file leaves the head of a disk elsewhere, and its sync pays for the way back
 * whatever it commits: as much as foreign reads do. Smaller quanta would only be more of them. */
double quantum_target(const struct controller *c)
{
	bool pays = c->large_files && controller_yields(c) && !c->o.latency_usec;

	return sync_target(c) + (pays ? waits_mean(&c->in_gap) : 0);
}

/* ---- the search ----------------------------------------------------------------------------- */

/* The dimension of which the quantum had more is what made it expensive, or shows that more may be
 * done. */
static struct quantum_size *decisive(struct controller *c)
{
	double e = (double)c->entries.used / (double)c->entries.limit;
	double b = (double)c->bytes.used / (double)c->bytes.limit;

	return e >= b ? &c->entries : &c->bytes;
}

static void quantum_cut(struct controller *c, struct quantum_size *s, double by)
{
	c->totals.backoffs[BACKOFF_QUANTUM]++;
	quantum_scale(s, by);
	c->costs = (struct cost_window){ 0 };
}

/* Doubles until two quanta in a row were too expensive: one may have met foreign I/O. Where each
 * byte is discarded, one is enough as a warning, as the next would cost twice as much. */
static void quantum_grow(struct controller *c, struct quantum_size *s, double cost, double most)
{
	if (cost <= most) {
		c->expensive = 0;
		if (quantum_is_full(s, 1))
			quantum_scale(s, 2);
		return;
	}
	if (++c->expensive < 2 && !c->o.discards)
		return;
	c->growing = false;
	quantum_cut(c, s, MAX(most / cost, 0.25));
}

void quantum_adjust(struct controller *c, uint64_t cost_usec)
{
	struct quantum_size *s = decisive(c);
	double most = quantum_target(c), usual, worth;

	window_add(&c->costs, PACING_COSTS, cost_usec);
	if (c->growing && c->costs.n < CUT_EVERY) {
		quantum_grow(c, s, (double)cost_usec, most);
		return;
	}
	if (c->costs.n < CUT_EVERY)
		return;
	usual = (double)window_median(&c->costs);
	/* With foreign commits there are no syncs to be saved. */
	worth = piggybacks(c) ? 0 : (double)c->work_usec / usual / WORTH_A_SYNC;
	if (usual > most && !c->growing) {
		quantum_cut(c, s, MAX(most / usual, 0.5));
	} else if (worth > 1) {
		c->growing = false;
		quantum_scale(s, 0.8);
	} else if (c->growing) {
		quantum_grow(c, s, (double)cost_usec, most);
	} else if (usual < most * 0.9 && worth < 0.7 && quantum_is_full(s, 1)) {
		/* Measured seldom, it has to find its way in fewer steps. */
		quantum_scale(s, c->piggybacked ? 1.5 : usual < most * 0.7 ? 1.25 : 1.08);
	}
}
