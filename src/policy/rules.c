/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "rules.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "retention.h"

struct deciding {
	const struct policy *p;
	struct policy_entry *v;
	size_t n;
	uint32_t *limited; /* entries that only limits may want */
	size_t n_limited;
	struct policy_moment now;
	struct policy_sum matched;
	struct policy_sum going; /* so far */
	bool age_excess;
};

bool policy_space_is_set(const struct policy_space *s)
{
	return s->share > 0 || s->bytes > 0;
}

uint64_t policy_space_bytes(const struct policy_space *s, uint64_t size_bytes)
{
	return s->is_share ? (uint64_t)(s->share * (double)size_bytes) : s->bytes;
}

bool policy_has_keep(const struct policy *p)
{
	for (int i = 0; i < KEEP_WITHIN; i++)
		if (p->keep.periods[i] > 0)
			return true;
	return p->keep.within_usec > 0;
}

bool policy_has_min_free(const struct policy *p)
{
	return policy_space_is_set(&p->min_free_below);
}

bool policy_has_min_inodes(const struct policy *p)
{
	return policy_space_is_set(&p->min_inodes_below);
}

bool policy_has_marks(const struct policy *p)
{
	return policy_has_min_free(p) || policy_has_min_inodes(p) || p->max_size_bytes > 0;
}

bool policy_has_rules(const struct policy *p)
{
	return policy_has_keep(p) || p->max_age_usec > 0 || p->max_files > 0 || policy_has_marks(p);
}

static int oldest_first(const void *a, const void *b, void *userdata)
{
	const struct policy_entry *v = userdata;

	return entry_compare(&v[*(const uint32_t *)a], &v[*(const uint32_t *)b]);
}

static int largest_first(const void *a, const void *b, void *userdata)
{
	const struct policy_entry *v = userdata, *x = &v[*(const uint32_t *)a],
				  *y = &v[*(const uint32_t *)b];

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return entry_compare(x, y);
}

static void count(struct policy_sum *s, const struct policy_entry *e)
{
	s->n++;
	s->bytes += e->bytes;
}

/* Collects the entries that are left to the limits. Those of them that cannot be deleted count,
 * too: a limit that wants one reports it. */
static void limited_find(struct deciding *d)
{
	for (size_t i = 0; i < d->n; i++) {
		enum disposition disposition = (enum disposition)d->v[i].disposition;

		if (d->v[i].wanted == DISPOSITION_WITHIN_LIMITS &&
		    (disposition == DISPOSITION_WITHIN_LIMITS || disposition_refuses(disposition)))
			d->limited[d->n_limited++] = (uint32_t)i;
	}
}

/* ---- max-delete -------------------------------------------------------------------------------
 */

static double share_of(const struct policy *p, const struct policy_sum *part,
		       const struct policy_sum *all)
{
	double bytes = all->bytes > 0 ? (double)part->bytes / (double)all->bytes : 0;
	double n = all->n > 0 ? (double)part->n / (double)all->n : 0;

	/* Empty files have an inode each, and no bytes. */
	return all->bytes == 0 || policy_has_min_inodes(p) ? MAX(bytes, n) : bytes;
}

static bool is_too_much(const struct deciding *d, const struct policy_sum *going)
{
	return !d->now.unbounded && share_of(d->p, going, &d->matched) > d->p->max_delete;
}

/* What keep and max-age want to go does, or stays for limits to take of it. */
static void bound_ages(struct deciding *d)
{
	for (size_t i = 0; i < d->n; i++) {
		count(&d->matched, &d->v[i]);
		if (entry_goes(&d->v[i]))
			count(&d->going, &d->v[i]);
	}
	if (!is_too_much(d, &d->going))
		return;
	d->age_excess = true;
	d->going = (struct policy_sum){ 0 };
	for (size_t i = 0; i < d->n; i++)
		if (entry_goes(&d->v[i])) {
			d->v[i].stays = 1;
			d->limited[d->n_limited++] = (uint32_t)i;
		}
}

/* May an entry that a limit wants go in this run? */
static bool has_room(struct deciding *d, const struct policy_entry *e)
{
	struct policy_sum with = d->going;
	bool first = with.n == 0 && d->p->max_delete > 0;

	count(&with, e);
	if (is_too_much(d, &with) && !first)
		return false;
	d->going = with;
	return true;
}

/* ---- limits -----------------------------------------------------------------------------------
 */

/* What the limits see: it changes with each entry that they take. */
struct limits {
	uint64_t files, bytes, free_bytes, free_inodes; /* there would be */
	uint64_t free_wanted_bytes, free_wanted_inodes;
};

/* How much is to be free, of so much in all; 0: enough is, or it is not known. */
static uint64_t wanted(const struct policy_space *below, const struct policy_space *until,
		       uint64_t free, uint64_t all)
{
	return all > 0 && free < policy_space_bytes(below, all) ? policy_space_bytes(until, all)
								: 0;
}

static struct limits limits_begin(const struct deciding *d)
{
	const struct policy *p = d->p;
	struct limits l = { .free_bytes = d->now.free_bytes, .free_inodes = d->now.free_inodes };

	for (size_t i = 0; i < d->n; i++) {
		const struct policy_entry *e = &d->v[i];

		if (entry_goes(e)) {
			l.free_bytes += e->bytes;
			l.free_inodes += e->inodes;
		} else {
			l.files++;
			l.bytes += e->bytes;
		}
	}
	l.free_wanted_bytes =
		wanted(&p->min_free_below, &p->min_free_until, l.free_bytes, d->now.size_bytes);
	l.free_wanted_inodes =
		wanted(&p->min_inodes_below, &p->min_inodes_until, l.free_inodes, d->now.inodes);
	return l;
}

/* Which limit wants this entry; DISPOSITION_WITHIN_LIMITS for none. */
static enum disposition limit_on(const struct policy *p, const struct limits *l,
				 const struct policy_entry *e)
{
	if (p->max_files > 0 && l->files > p->max_files)
		return DISPOSITION_MAX_FILES;
	if (p->max_size_bytes > 0 && e->bytes > 0 && l->bytes > p->max_size_bytes)
		return DISPOSITION_MAX_SIZE;
	if (e->bytes > 0 && l->free_bytes < l->free_wanted_bytes)
		return DISPOSITION_MIN_FREE;
	if (e->inodes > 0 && l->free_inodes < l->free_wanted_inodes)
		return DISPOSITION_MIN_INODES;
	return DISPOSITION_WITHIN_LIMITS;
}

static void apply_limits(struct deciding *d)
{
	struct limits l = limits_begin(d);
	bool full = false;

	if (d->n_limited > 0)
		qsort_r(d->limited, d->n_limited, sizeof(*d->limited),
			d->p->order == ORDER_LARGEST ? largest_first : oldest_first, d->v);
	for (size_t i = 0; i < d->n_limited; i++) {
		struct policy_entry *e = &d->v[d->limited[i]];
		enum disposition limit = limit_on(d->p, &l, e);

		if (!disposition_deletes(limit))
			continue;
		if (disposition_refuses((enum disposition)e->disposition)) {
			e->stays = 1;
			continue;
		}
		/* No smaller one takes the place of one that does not fit. */
		full = full || !has_room(d, e);
		if (!full || e->disposition == DISPOSITION_WITHIN_LIMITS)
			e->disposition = (uint8_t)limit;
		e->stays = full;
		assert(l.files > 0);
		l.files--;
		l.bytes -= e->bytes;
		l.free_bytes += e->bytes;
		l.free_inodes += e->inodes;
	}
}

/* Has it an age that rules go by? */
static bool has_age(const struct policy_entry *e)
{
	return !disposition_is_timeless((enum disposition)e->disposition) &&
	       e->disposition != DISPOSITION_FUTURE && e->disposition != DISPOSITION_NOT_EMPTY;
}

static void sum_up(const struct deciding *d, struct policy_plan *plan)
{
	struct policy_sum wanted;

	plan->matched = d->matched;
	plan->oldest_nsec = INT64_MAX;
	for (size_t i = 0; i < d->n; i++) {
		const struct policy_entry *e = &d->v[i];

		if (entry_goes(e))
			count(&plan->deleted, e);
		else if (has_age(e))
			plan->oldest_nsec = MIN(plan->oldest_nsec, e->time_nsec);
		if (!e->stays)
			count(&plan->dispositions[e->disposition], e);
		else if (disposition_deletes((enum disposition)e->disposition))
			count(&plan->excess, e);
		else
			count(&plan->refused, e);
	}
	plan->is_over = d->age_excess || (plan->excess.n > 0 && d->p->max_delete <= 0);
	wanted = (struct policy_sum){ plan->deleted.n + plan->excess.n,
				      plan->deleted.bytes + plan->excess.bytes };
	plan->share = share_of(d->p, &wanted, &plan->matched);
	assert(wanted.n <= plan->matched.n);
	assert(plan->deleted.n == d->going.n);
}

int rules_decide(struct policy_plan *ret, const struct policy *p, struct policy_entries *l,
		 struct policy_moment now)
{
	struct deciding d = { .p = p, .v = l->v, .n = l->n, .now = now };
	struct policy_plan plan = { 0 };

	plan.order = malloc((l->n + 1) * sizeof(*plan.order));
	d.limited = malloc((l->n + 1) * sizeof(*d.limited));
	if (!plan.order || !d.limited) {
		free(plan.order);
		free(d.limited);
		return -ENOMEM;
	}
	if (retention_decide(p, l, now.now_nsec, plan.order) < 0) {
		free(plan.order);
		free(d.limited);
		return -ENOMEM;
	}
	limited_find(&d);
	bound_ages(&d);
	apply_limits(&d);
	free(d.limited);
	sum_up(&d, &plan);
	*ret = plan;
	return 0;
}

void policy_plan_done(struct policy_plan *p)
{
	free(p->order);
	*p = (struct policy_plan){ 0 };
}
