/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "rules.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "keep-periods.h"

struct deciding {
	const struct policy *p;
	struct policy_entry *v;
	size_t n;
	uint32_t *order;
	struct policy_moment now;
};

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
	return p->min_free_below.share > 0 || p->min_free_below.bytes > 0;
}

bool policy_has_marks(const struct policy *p)
{
	return policy_has_min_free(p) || p->max_size_bytes > 0;
}

bool policy_has_rules(const struct policy *p)
{
	return policy_has_keep(p) || p->max_age_usec > 0 || p->max_files > 0 || policy_has_marks(p);
}

static int by_time(const struct policy_entry *x, const struct policy_entry *y)
{
	if (x->time_nsec != y->time_nsec)
		return x->time_nsec < y->time_nsec ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int by_series(const void *a, const void *b, void *userdata)
{
	const struct policy_entry *v = userdata, *x = &v[*(const uint32_t *)a],
				  *y = &v[*(const uint32_t *)b];
	int r = strcmp(x->series, y->series);

	return r != 0 ? r : -by_time(x, y);
}

static int oldest_first(const void *a, const void *b, void *userdata)
{
	const struct policy_entry *v = userdata;

	return by_time(&v[*(const uint32_t *)a], &v[*(const uint32_t *)b]);
}

static int largest_first(const void *a, const void *b, void *userdata)
{
	const struct policy_entry *v = userdata, *x = &v[*(const uint32_t *)a],
				  *y = &v[*(const uint32_t *)b];

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return by_time(x, y);
}

/* Has an entry no place in a series? */
static bool is_apart(const struct deciding *d, struct policy_entry *e)
{
	if (e->disposition == DISPOSITION_NO_TIME || e->disposition == DISPOSITION_NO_SERIES)
		return true;
	if (e->time_nsec <= d->now.now_nsec)
		return false;
	if (e->disposition == DISPOSITION_UNDECIDED)
		e->disposition = DISPOSITION_FUTURE;
	return true;
}

static enum disposition disposition_of(const struct deciding *d, const struct policy_entry *e,
				       uint64_t nth)
{
	const struct policy *p = d->p;
	uint64_t age_usec = ((uint64_t)d->now.now_nsec - (uint64_t)e->time_nsec) / 1000;

	if (!policy_has_rules(p))
		return DISPOSITION_NO_RULE;
	if (e->kept_by)
		return DISPOSITION_KEPT;
	if (nth <= p->min_count)
		return DISPOSITION_MIN_COUNT;
	if (age_usec < p->min_age_usec)
		return DISPOSITION_MIN_AGE;
	if (policy_has_keep(p))
		return DISPOSITION_NOT_KEPT;
	if (p->max_age_usec > 0 && age_usec > p->max_age_usec)
		return DISPOSITION_MAX_AGE;
	return DISPOSITION_WITHIN_LIMITS;
}

/* Decides one series, the entries of d->order from `from` to `to`, by what does not depend on other
 * series. */
static void decide_series(const struct deciding *d, size_t from, size_t to)
{
	struct periods periods = { 0 };
	uint64_t nth = 0;

	for (size_t i = from; i < to; i++) {
		struct policy_entry *e = &d->v[d->order[i]];

		e->kept_by = 0;
		if (is_apart(d, e))
			continue;
		static_assert(KEEP_RULES <= 8, "each has a bit of kept_by");
		e->kept_by = (uint8_t)periods_step(&periods, &d->p->keep, e->time_nsec);
		nth++;
		if (e->disposition == DISPOSITION_UNDECIDED)
			e->disposition = (uint8_t)disposition_of(d, e, nth);
	}
}

static void decide_all(const struct deciding *d)
{
	size_t from = 0;

	for (size_t i = 1; i <= d->n; i++)
		if (i == d->n ||
		    strcmp(d->v[d->order[i]].series, d->v[d->order[from]].series) != 0) {
			decide_series(d, from, i);
			from = i;
		}
}

/* What the limits see: it changes with each entry that goes. */
struct limits {
	uint64_t files, bytes, free_bytes; /* there would be */
	uint64_t free_wanted_bytes;
};

static struct limits limits_begin(const struct deciding *d)
{
	struct limits l = { .free_bytes = d->now.free_bytes };

	for (size_t i = 0; i < d->n; i++) {
		const struct policy_entry *e = &d->v[i];

		if (disposition_deletes(e->disposition)) {
			l.free_bytes += e->bytes;
		} else {
			l.files++;
			l.bytes += e->bytes;
		}
	}
	if (policy_has_min_free(d->p) &&
	    l.free_bytes < policy_space_bytes(&d->p->min_free_below, d->now.size_bytes))
		l.free_wanted_bytes = policy_space_bytes(&d->p->min_free_until, d->now.size_bytes);
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
	return DISPOSITION_WITHIN_LIMITS;
}

static int apply_limits(const struct deciding *d)
{
	struct limits l = limits_begin(d);
	size_t n = 0;
	uint32_t *candidates = malloc((d->n + 1) * sizeof(*candidates));

	if (!candidates)
		return -ENOMEM;
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].disposition == DISPOSITION_WITHIN_LIMITS)
			candidates[n++] = (uint32_t)i;
	qsort_r(candidates, n, sizeof(*candidates),
		d->p->order == ORDER_LARGEST ? largest_first : oldest_first, d->v);
	for (size_t i = 0; i < n; i++) {
		struct policy_entry *e = &d->v[candidates[i]];

		e->disposition = (uint8_t)limit_on(d->p, &l, e);
		if (disposition_deletes(e->disposition)) {
			assert(l.files > 0);
			l.files--;
			l.bytes -= e->bytes;
			l.free_bytes += e->bytes;
		}
	}
	free(candidates);
	return 0;
}

static void count(struct policy_sum *s, const struct policy_entry *e)
{
	s->n++;
	s->bytes += e->bytes;
}

static void sum_up(const struct deciding *d, struct policy_plan *plan)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct policy_entry *e = &d->v[i];

		count(&plan->matched, e);
		count(&plan->dispositions[e->disposition], e);
		if (disposition_deletes(e->disposition))
			count(&plan->deleted, e);
	}
	if (plan->matched.bytes > 0)
		plan->share = (double)plan->deleted.bytes / (double)plan->matched.bytes;
	else if (plan->matched.n > 0)
		plan->share = (double)plan->deleted.n / (double)plan->matched.n;
	assert(plan->deleted.n <= plan->matched.n);
	plan->over_max_delete = plan->share > d->p->max_delete;
}

int rules_decide(struct policy_plan *ret, const struct policy *p, struct policy_entries *l,
		 struct policy_moment now)
{
	struct deciding d = { .p = p, .v = l->v, .n = l->n, .now = now };
	struct policy_plan plan = { 0 };
	int r;

	d.order = malloc((l->n + 1) * sizeof(*d.order));
	if (!d.order)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		d.order[i] = (uint32_t)i;
	if (l->n > 0)
		qsort_r(d.order, l->n, sizeof(*d.order), by_series, l->v);
	decide_all(&d);
	r = apply_limits(&d);
	if (r < 0) {
		free(d.order);
		return r;
	}
	plan.order = d.order;
	sum_up(&d, &plan);
	*ret = plan;
	return 0;
}

void policy_plan_done(struct policy_plan *p)
{
	free(p->order);
	*p = (struct policy_plan){ 0 };
}
