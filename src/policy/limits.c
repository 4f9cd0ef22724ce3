/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/units.h"

/* How often entries are looked for that can be spared. Twice is enough, but for names that are
 * entangled on purpose. */
#define SPARES_MOST 16

struct limiting {
	const struct policy *p;
	const struct policy_moment *now;
	struct policy_entries *l;
	struct policy_set all;   /* what matches */
	struct policy_set ages;  /* what keep and max-age delete in this run */
	struct policy_set going; /* what is in the set of the entries now */
	bool age_excess;
	bool hopeless[LIMITS];
	uint64_t wanted_bytes, wanted_inodes; /* that are to be free; 0: enough is */

	/* What limits may take, in the policy's order; and which limit takes it, an enum
	 * disposition, or DISPOSITION_WITHIN_LIMITS. */
	uint32_t *candidates;
	uint8_t *takers;
	size_t n;

	/* With max-size-per-series: the series of each entry, and what each series has. */
	uint32_t *series;
	uint64_t *series_bytes;
	uint64_t *series_permanent_bytes; /* of entries that can never be deleted */
	const char **series_names;
	size_t n_series;
};

static void count(struct policy_sum *s, const struct policy_entry *e)
{
	s->n++;
	s->bytes += e->bytes;
}

static struct policy_sum sum_of(const struct policy_set *s)
{
	return (struct policy_sum){ s->n, s->bytes };
}

/* ---- max-delete -------------------------------------------------------------------------------
 */

static double share(uint64_t part, uint64_t spent, uint64_t all)
{
	return all + spent > 0 ? (double)(part + spent) / (double)(all + spent) : 0;
}

/* Returns the share of `all` that `part` is, if `spent` was there as well and is deleted already.
 */
static double share_of(const struct policy_set *part, const struct policy_set *spent,
		       const struct policy_set *all)
{
	double n = share(part->n, spent->n, all->n);
	double bytes = share(part->bytes, spent->bytes, all->bytes);

	return MAX(MAX(n, bytes),
		   share(part->referenced_bytes, spent->referenced_bytes, all->referenced_bytes));
}

static bool is_too_much(const struct limiting *d, const struct policy_set *spent)
{
	return !d->now->unbounded && share_of(&d->going, spent, &d->all) > d->p->max_delete;
}

/* Lets keep and max-age delete what they want; if it is too much, leaves all of it to the limits.
 */
static void bound_ages(struct limiting *d)
{
	const struct policy_set none = { 0 };

	d->going = set_begin(d->l);
	for (size_t i = 0; i < d->l->n; i++) {
		struct policy_entry *e = &d->l->v[i];

		if (entry_goes(e) && d->now->is_clock_unsure)
			e->disposition = DISPOSITION_CLOCK;
		if (entry_goes(e))
			set_add(&d->going, d->l, i);
	}
	d->age_excess = is_too_much(d, &none);
	if (d->age_excess)
		d->going = set_begin(d->l);
	for (size_t i = 0; i < d->l->n && d->age_excess; i++)
		d->l->v[i].stays = d->l->v[i].stays || entry_goes(&d->l->v[i]);
	d->ages = d->going;
}

/* ---- what the limits demand -------------------------------------------------------------------
 */

static bool is_permanent(enum disposition disposition)
{
	return disposition == DISPOSITION_PROTECTED || disposition == DISPOSITION_MOUNT ||
	       disposition == DISPOSITION_IMMUTABLE || disposition == DISPOSITION_PINNED ||
	       disposition_is_timeless(disposition) || disposition == DISPOSITION_NO_SERIES ||
	       disposition == DISPOSITION_FUTURE;
}

/* Returns the end of the unit or chain that begins at order[from]. Sets *ret_permanent if none of
 * it can ever be deleted, because one of its entries cannot. */
static size_t unit_in_order(const struct policy_entries *l, const uint32_t *order, size_t from,
			    bool *ret_permanent)
{
	size_t to = from;

	*ret_permanent = false;
	for (; to < l->n && l->v[order[to]].unit == l->v[order[from]].unit; to++)
		*ret_permanent = *ret_permanent ||
				 is_permanent((enum disposition)l->v[order[to]].disposition);
	return to;
}

/* Adds to `all` the units that can never be deleted, or the others. */
static void count_units(struct limiting *d, const uint32_t *order, bool are_permanent)
{
	bool is_permanent;

	for (size_t i = 0, end; i < d->l->n; i = end) {
		end = unit_in_order(d->l, order, i, &is_permanent);
		for (size_t k = i; k < end && is_permanent == are_permanent; k++)
			set_add(&d->all, d->l, order[k]);
	}
}

/* Counts all entries, and finds limits that those of them exceed which can never be deleted. */
static void count_all(struct limiting *d, const uint32_t *order)
{
	const struct policy *p = d->p;

	d->all = set_begin(d->l);
	count_units(d, order, /* are_permanent= */ false);
	d->going = d->all;
	count_units(d, order, /* are_permanent= */ true);
	d->hopeless[LIMIT_FILES] = p->max_files > 0 && d->all.n - d->going.n > p->max_files;
	d->hopeless[LIMIT_SIZE] =
		p->max_size_bytes > 0 && d->all.bytes - d->going.bytes > p->max_size_bytes;
}

/* Returns how much is to be free, or 0 if enough is free or `all` is not known. */
static uint64_t wanted(const struct policy_space *below, const struct policy_space *until,
		       uint64_t free, uint64_t all)
{
	return all > 0 && free < policy_space_bytes(below, all) ? policy_space_bytes(until, all)
								: 0;
}

static void series_change(struct limiting *d, size_t i, bool is_added)
{
	if (d->series && is_added)
		d->series_bytes[d->series[i]] += d->l->v[i].bytes;
	else if (d->series)
		d->series_bytes[d->series[i]] -= d->l->v[i].bytes;
}

/* `order` has the entries by series. */
static int series_count(struct limiting *d, const uint32_t *order)
{
	size_t n = d->l->n, k = 0, end = 0;
	bool is_permanent = false;

	if (d->p->max_series_size_bytes == 0 || n == 0)
		return 0;
	d->series = calloc(n, sizeof(*d->series));
	d->series_bytes = calloc(n, sizeof(*d->series_bytes));
	d->series_permanent_bytes = calloc(n, sizeof(*d->series_permanent_bytes));
	d->series_names = calloc(n, sizeof(*d->series_names));
	if (!d->series || !d->series_bytes || !d->series_permanent_bytes || !d->series_names)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct policy_entry *e = &d->l->v[order[i]];

		if (i > 0 && strcmp(e->series, d->series_names[k]) != 0)
			k++;
		d->series_names[k] = e->series;
		d->series[order[i]] = (uint32_t)k;
		/* An entry outside all series has none whose size could be limited. */
		if (!entry_goes(e) && e->disposition != DISPOSITION_NO_SERIES)
			d->series_bytes[k] += e->bytes;
		if (i == end)
			end = unit_in_order(d->l, order, i, &is_permanent);
		if (is_permanent && e->disposition != DISPOSITION_NO_SERIES)
			d->series_permanent_bytes[k] += e->bytes;
	}
	d->n_series = k + 1;
	return 0;
}

/* Returns true if max-size-per-series wants entries of the series, and deleting them can help. */
static bool is_series_large(const struct limiting *d, size_t series)
{
	return d->series_bytes[series] > d->p->max_series_size_bytes &&
	       d->series_permanent_bytes[series] <= d->p->max_series_size_bytes;
}

static uint64_t free_bytes(const struct limiting *d)
{
	return d->now->free_bytes + d->going.bytes;
}

static uint64_t free_inodes(const struct limiting *d)
{
	return d->now->free_inodes + d->going.inodes;
}

/* Returns by how much each limit is missed if the set goes. */
static uint64_t missing(const struct limiting *d, enum limit limit)
{
	const struct policy *p = d->p;
	uint64_t files = d->all.n - d->going.n, bytes = d->all.bytes - d->going.bytes;

	switch (limit) {
	case LIMIT_FILES:
		return p->max_files > 0 && files > p->max_files ? files - p->max_files : 0;
	case LIMIT_SIZE:
		return p->max_size_bytes > 0 && bytes > p->max_size_bytes
			       ? bytes - p->max_size_bytes
			       : 0;
	case LIMIT_FREE:
		return d->wanted_bytes - MIN(d->wanted_bytes, free_bytes(d));
	case LIMIT_INODES:
		return d->wanted_inodes - MIN(d->wanted_inodes, free_inodes(d));
	case LIMIT_SERIES_SIZE: /* each series has its own */
	case LIMITS:
		break;
	}
	return 0;
}

/* Returns the limit that wants entry i, or DISPOSITION_WITHIN_LIMITS. If only the space that the
 * entry cannot free is missing, returns DISPOSITION_FREES_NOTHING. */
static enum disposition limit_on(const struct limiting *d, size_t i)
{
	const struct policy_entry *e = &d->l->v[i];
	bool has_refs = entry_refs(d->l, i) > 0;
	bool is_size = missing(d, LIMIT_SIZE) > 0 && !d->hopeless[LIMIT_SIZE];
	bool is_free = missing(d, LIMIT_FREE) > 0, is_inodes = missing(d, LIMIT_INODES) > 0;

	if (missing(d, LIMIT_FILES) > 0 && !d->hopeless[LIMIT_FILES])
		return DISPOSITION_MAX_FILES;
	if (d->series && e->bytes > 0 && is_series_large(d, d->series[i]))
		return DISPOSITION_MAX_SERIES_SIZE;
	if (is_size && (e->bytes > 0 || has_refs))
		return DISPOSITION_MAX_SIZE;
	if (is_free && (e->bytes > 0 || has_refs))
		return DISPOSITION_MIN_FREE;
	if (is_inodes && (e->inodes > 0 || has_refs))
		return DISPOSITION_MIN_INODES;
	return is_size || is_free || is_inodes ? DISPOSITION_FREES_NOTHING
					       : DISPOSITION_WITHIN_LIMITS;
}

/* ---- the order --------------------------------------------------------------------------------
 */

/* What units are compared by. */
struct by {
	const struct policy_entry *v;
	const uint32_t *leaders; /* of each unit, the index of its newest entry */
	const uint64_t *weights; /* of each unit; NULL: the oldest is first */
};

/* Orders by unit, and entries of a unit by their age. */
static int by_unit(const void *a, const void *b, void *userdata)
{
	const struct by *by = userdata;
	const struct policy_entry *x = &by->v[*(const uint32_t *)a],
				  *y = &by->v[*(const uint32_t *)b];

	if (x->unit == y->unit)
		return entry_compare(x, y);
	if (by->weights && by->weights[x->unit] != by->weights[y->unit])
		return by->weights[x->unit] > by->weights[y->unit] ? -1 : 1;
	return entry_compare(&by->v[by->leaders[x->unit]], &by->v[by->leaders[y->unit]]);
}

/* Returns what the entry frees, with its share of the files whose names are all among the entries.
 * All entries are in the set. */
static uint64_t weight(const struct policy_entries *l, size_t i)
{
	const struct link_ref *ref = l->refs + l->v[i].refs;
	uint64_t bytes = l->v[i].bytes;

	for (size_t n = entry_refs(l, i); n > 0; n--, ref++) {
		const struct link_file *f = &l->links.v[ref->file];

		if (link_is_freed(f))
			bytes += f->bytes / f->nlink * ref->names;
	}
	return bytes;
}

static void leaders_find(const struct policy_entries *l, uint32_t *ret)
{
	for (size_t i = 0; i < l->n; i++)
		ret[i] = UINT32_MAX;
	for (size_t i = 0; i < l->n; i++) {
		uint32_t *leader = &ret[l->v[i].unit];

		if (*leader == UINT32_MAX || entry_compare(&l->v[i], &l->v[*leader]) > 0)
			*leader = (uint32_t)i;
	}
}

/* Leaves the set undefined. */
static void weights_find(struct limiting *d, uint64_t *ret)
{
	d->going = set_begin(d->l);
	for (size_t i = 0; i < d->l->n; i++)
		set_add(&d->going, d->l, i);
	for (size_t i = 0; i < d->l->n; i++)
		ret[d->l->v[i].unit] += weight(d->l, i);
}

/* Sorts the candidates, so that those of a unit follow each other. */
static int candidates_sort(struct limiting *d)
{
	bool by_weight = d->p->order == ORDER_LARGEST;
	uint32_t *leaders = calloc(d->l->n + 1, sizeof(*leaders));
	uint64_t *weights = by_weight ? calloc(d->l->n + 1, sizeof(*weights)) : NULL;
	int r = leaders && (weights || !by_weight) ? 0 : -ENOMEM;

	if (r >= 0 && d->n > 0) {
		leaders_find(d->l, leaders);
		if (weights)
			weights_find(d, weights);
		qsort_r(d->candidates, d->n, sizeof(*d->candidates), by_unit,
			&(struct by){ d->l->v, leaders, weights });
	}
	free(leaders);
	free(weights);
	return r;
}

/* Collects what limits may take. Entries that cannot be deleted count, too: a limit that wants one
 * reports it. */
static void candidates_find(struct limiting *d)
{
	for (size_t i = 0; i < d->l->n; i++) {
		const struct policy_entry *e = &d->l->v[i];
		enum disposition disposition = (enum disposition)e->disposition;

		if (disposition == DISPOSITION_WITHIN_LIMITS || disposition == DISPOSITION_CLOCK ||
		    (disposition_refuses(disposition) && e->wanted == DISPOSITION_WITHIN_LIMITS) ||
		    (disposition_deletes(disposition) && e->stays))
			d->candidates[d->n++] = (uint32_t)i;
	}
}

/* Begins with the set that keep and max-age delete. */
static void going_begin(struct limiting *d)
{
	d->going = set_begin(d->l);
	for (size_t i = 0; i < d->l->n; i++)
		if (entry_goes(&d->l->v[i]))
			set_add(&d->going, d->l, i);
}

/* ---- what the limits take ---------------------------------------------------------------------
 */

/* Returns the end of the unit that begins with candidate k. */
static size_t unit_end(const struct limiting *d, size_t k)
{
	uint32_t unit = d->l->v[d->candidates[k]].unit;

	while (k < d->n && d->l->v[d->candidates[k]].unit == unit)
		k++;
	return k;
}

static void unit_add(struct limiting *d, size_t from, size_t to)
{
	for (size_t k = from; k < to; k++)
		set_add(&d->going, d->l, d->candidates[k]);
}

static void unit_remove(struct limiting *d, size_t from, size_t to)
{
	for (size_t k = from; k < to; k++)
		set_remove(&d->going, d->l, d->candidates[k]);
}

/* Returns what limit_on returns for the first entry of the unit that a limit wants. If the unit has
 * an entry that cannot be deleted, marks that entry as refused, and returns
 * DISPOSITION_WITHIN_LIMITS. */
static enum disposition unit_limit(struct limiting *d, size_t from, size_t to)
{
	enum disposition limit = limit_on(d, d->candidates[from]);
	bool is_refused = false;

	for (size_t k = from; k < to && !disposition_deletes(limit); k++)
		limit = limit_on(d, d->candidates[k]);
	for (size_t k = from; k < to && disposition_deletes(limit); k++) {
		struct policy_entry *e = &d->l->v[d->candidates[k]];

		if (disposition_refuses((enum disposition)e->disposition))
			e->stays = is_refused = true;
	}
	return is_refused ? DISPOSITION_WITHIN_LIMITS : limit;
}

static void take(struct limiting *d)
{
	going_begin(d);
	d->wanted_bytes = wanted(&d->p->min_free_below, &d->p->min_free_until, free_bytes(d),
				 d->now->size_bytes);
	d->wanted_inodes = wanted(&d->p->min_inodes_below, &d->p->min_inodes_until, free_inodes(d),
				  d->now->inodes);
	for (size_t k = 0, end; k < d->n; k = end) {
		enum disposition limit;

		end = unit_end(d, k);
		limit = unit_limit(d, k, end);
		memset(d->takers + k, limit, end - k);
		if (!disposition_deletes(limit))
			continue;
		unit_add(d, k, end);
		for (size_t i = k; i < end; i++)
			series_change(d, d->candidates[i], /* is_added= */ false);
	}
}

/* Returns true if a limit needs a unit that has files with names elsewhere. *ret_frees is false if
 * deleting the unit frees next to nothing, less than a hundredth of what is in it. */
static bool is_needed(struct limiting *d, size_t from, size_t to, bool *ret_frees)
{
	const struct policy_set with = d->going;
	uint64_t before[LIMITS];
	bool needed = false, only_bytes = true;

	for (enum limit limit = 0; limit < LIMITS; limit++)
		before[limit] = missing(d, limit);
	unit_remove(d, from, to);
	for (enum limit limit = 0; limit < LIMITS; limit++)
		if (missing(d, limit) > before[limit] && !d->hopeless[limit]) {
			needed = true;
			only_bytes = only_bytes && limit != LIMIT_FILES && limit != LIMIT_INODES;
		}
	*ret_frees = with.bytes - d->going.bytes >=
		     (with.referenced_bytes - d->going.referenced_bytes) / 100;
	unit_add(d, from, to);
	return needed && (*ret_frees || !only_bytes);
}

static bool has_refs(const struct limiting *d, size_t from, size_t to)
{
	for (size_t k = from; k < to; k++)
		if (entry_refs(d->l, d->candidates[k]) > 0)
			return true;
	return false;
}

/* Spares the units that were taken so that files with several names are freed, if these files are
 * not freed after all, or if the limits hold without them. The newest are spared first. Returns
 * true if it spared any. */
static bool spare(struct limiting *d)
{
	bool any = false;

	for (size_t end = d->n, k; end > 0; end = k) {
		bool frees;

		for (k = end - 1; k > 0 && unit_end(d, k - 1) == end; k--)
			;
		if (!disposition_deletes((enum disposition)d->takers[k]) ||
		    d->takers[k] == DISPOSITION_MAX_SERIES_SIZE || !has_refs(d, k, end) ||
		    is_needed(d, k, end, &frees))
			continue;
		unit_remove(d, k, end);
		memset(d->takers + k, frees ? DISPOSITION_WITHIN_LIMITS : DISPOSITION_FREES_NOTHING,
		       end - k);
		any = true;
	}
	return any;
}

/* Adds a unit to what goes in this run, if max-delete allows it. */
static bool has_room(struct limiting *d, size_t from, size_t to)
{
	bool is_first = d->going.n + d->now->spent.n == 0 && d->p->max_delete > 0;

	unit_add(d, from, to);
	if (!is_too_much(d, &d->now->spent) || is_first)
		return true;
	unit_remove(d, from, to);
	return false;
}

/* Writes into the entries of a unit what its limit has decided. */
static void unit_decide(struct limiting *d, size_t from, size_t to, bool is_full)
{
	for (size_t k = from; k < to; k++) {
		struct policy_entry *e = &d->l->v[d->candidates[k]];
		enum disposition before = (enum disposition)e->disposition;

		if (disposition_deletes((enum disposition)d->takers[k])) {
			if (!is_full || !disposition_deletes(before))
				e->disposition = d->takers[k];
			e->stays = is_full;
		} else if (d->takers[k] == DISPOSITION_FREES_NOTHING &&
			   before == DISPOSITION_WITHIN_LIMITS) {
			e->disposition = d->takers[k];
		}
	}
}

static void bound_limits(struct limiting *d)
{
	bool is_full = false;

	going_begin(d);
	for (size_t k = 0, end; k < d->n; k = end) {
		end = unit_end(d, k);
		/* No smaller unit takes the place of a unit that does not fit. */
		if (disposition_deletes((enum disposition)d->takers[k]))
			is_full = is_full || !has_room(d, k, end);
		unit_decide(d, k, end, is_full);
	}
}

/* ---- the result -------------------------------------------------------------------------------
 */

static struct limit_shortage shortage_of_most(uint64_t have, uint64_t most, bool is_hopeless)
{
	return (struct limit_shortage){ .is_unmet = most > 0 && have > most,
					.is_hopeless = is_hopeless,
					.have = have,
					.wanted = most };
}

static struct limit_shortage shortage_of_free(const struct policy_space *below, uint64_t free,
					      uint64_t all)
{
	uint64_t mark = policy_space_bytes(below, all);

	return (struct limit_shortage){
		.is_unmet = all > 0 && free < mark, .have = free, .wanted = mark, .all = all
	};
}

static void shortages_find(struct limiting *d, struct limit_shortage *ret)
{
	const struct policy *p = d->p;
	struct limit_shortage *s = &ret[LIMIT_SERIES_SIZE];

	ret[LIMIT_FILES] =
		shortage_of_most(d->all.n - d->going.n, p->max_files, d->hopeless[LIMIT_FILES]);
	ret[LIMIT_SIZE] = shortage_of_most(d->all.bytes - d->going.bytes, p->max_size_bytes,
					   d->hopeless[LIMIT_SIZE]);
	ret[LIMIT_FREE] = shortage_of_free(&p->min_free_below, free_bytes(d), d->now->size_bytes);
	ret[LIMIT_INODES] = shortage_of_free(&p->min_inodes_below, free_inodes(d), d->now->inodes);
	/* Entries that max-delete keeps are taken out of their series, and stay. */
	for (size_t k = 0; k < d->n && d->series; k++)
		if (disposition_deletes((enum disposition)d->takers[k]) &&
		    d->l->v[d->candidates[k]].stays)
			series_change(d, d->candidates[k], /* is_added= */ true);
	for (size_t k = 0; k < d->n_series; k++)
		if (d->series_bytes[k] > p->max_series_size_bytes && d->series_bytes[k] > s->have) {
			*s = shortage_of_most(d->series_bytes[k], p->max_series_size_bytes,
					      d->series_permanent_bytes[k] >
						      p->max_series_size_bytes);
			s->series = d->series_names[k];
		}
}

/* Returns true if rules go by the time of the entry. */
static bool has_age(const struct policy_entry *e)
{
	return !disposition_is_timeless((enum disposition)e->disposition) &&
	       e->disposition != DISPOSITION_FUTURE && e->disposition != DISPOSITION_NOT_EMPTY;
}

/* The set is what goes. Adds what max-delete keeps, at the end. */
static void sum_up(struct limiting *d, struct policy_plan *plan)
{
	struct policy_entries *l = d->l;
	const struct policy_set none = { 0 };
	bool by_limits = false;

	plan->matched = sum_of(&d->all);
	plan->deleted = sum_of(&d->going);
	plan->limited = (struct policy_set){
		.n = d->going.n - d->ages.n,
		.bytes = d->going.bytes - d->ages.bytes,
		.referenced_bytes = d->going.referenced_bytes - d->ages.referenced_bytes,
	};
	plan->oldest_nsec = INT64_MAX;
	for (size_t i = 0; i < l->n; i++) {
		const struct policy_entry *e = &l->v[i];
		bool goes = entry_goes(e);

		if (!goes && has_age(e))
			plan->oldest_nsec = MIN(plan->oldest_nsec, e->time_nsec);
		plan->kept[e->disposition] += !goes;
		if (!e->stays)
			count(&plan->dispositions[e->disposition], e);
		else if (!disposition_deletes((enum disposition)e->disposition))
			count(&plan->refused, e);
		else
			set_add(&d->going, l, i);
		by_limits = by_limits || e->disposition >= DISPOSITION_MAX_FILES;
	}
	plan->excess = (struct policy_sum){ d->going.n - plan->deleted.n,
					    d->going.bytes - plan->deleted.bytes };
	plan->is_over = d->age_excess || (plan->excess.n > 0 && d->p->max_delete <= 0);
	plan->share = share_of(&d->going, by_limits ? &d->now->spent : &none, &d->all);
}

static void limiting_done(struct limiting *d)
{
	free(d->candidates);
	free(d->takers);
	free(d->series);
	free(d->series_bytes);
	free(d->series_permanent_bytes);
	free(d->series_names);
}

int limits_decide(struct policy_plan *plan, const struct policy *p, struct policy_entries *l,
		  const struct policy_moment *now)
{
	struct limiting d = { .p = p, .now = now, .l = l };
	int r;

	count_all(&d, plan->order);
	bound_ages(&d);
	d.candidates = malloc((l->n + 1) * sizeof(*d.candidates));
	d.takers = malloc(l->n + 1);
	r = d.candidates && d.takers ? series_count(&d, plan->order) : -ENOMEM;
	if (r >= 0) {
		candidates_find(&d);
		r = candidates_sort(&d);
	}
	if (r >= 0) {
		take(&d);
		/* Without a spared unit, others may free nothing. */
		for (int i = 0; i < SPARES_MOST && spare(&d); i++)
			;
		bound_limits(&d);
		shortages_find(&d, plan->shortages);
		sum_up(&d, plan);
	}
	limiting_done(&d);
	return r;
}

struct policy_sum limits_deleted(struct policy_entries *l, const uint32_t *order)
{
	struct policy_set set = set_begin(l);

	for (size_t i = 0, end; i < l->n; i = end) {
		bool goes = true, is_permanent;

		end = unit_in_order(l, order, i, &is_permanent);
		for (size_t k = i; k < end; k++)
			goes = goes && entry_goes(&l->v[order[k]]);
		for (size_t k = i; k < end; k++)
			if (goes)
				set_add(&set, l, order[k]);
			else if (entry_goes(&l->v[order[k]]))
				l->v[order[k]].disposition = DISPOSITION_UNIT;
	}
	return sum_of(&set);
}

bool limits_are_unmet(const struct policy_plan *plan)
{
	for (enum limit limit = 0; limit < LIMITS; limit++)
		if (plan->shortages[limit].is_unmet)
			return true;
	return false;
}

/* ---- words ------------------------------------------------------------------------------------
 */

static const char *const limit_names[LIMITS] = {
	[LIMIT_FILES] = "max-files",        [LIMIT_SERIES_SIZE] = "max-size-per-series",
	[LIMIT_SIZE] = "max-size",          [LIMIT_FREE] = "min-free",
	[LIMIT_INODES] = "min-free-inodes",
};

const char *limit_name(enum limit limit)
{
	return limit_names[limit];
}

struct words {
	char *buf;
	size_t at;
};

static _printf_(2, 3) void words_add(struct words *w, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(w->buf + w->at, LIMIT_WORDS - w->at, format, ap);
	va_end(ap);
	w->at = MIN(w->at + (size_t)MAX(n, 0), (size_t)LIMIT_WORDS - 1);
}

static void words_add_free(struct words *w, const struct policy_space *below,
			   const struct limit_shortage *s, bool is_inodes)
{
	char have[32], want[32];

	if (below->is_share)
		words_add(w, "%.0f %% free, %.0f %% wanted", 100 * (double)s->have / (double)s->all,
			  100 * below->share);
	else if (is_inodes)
		words_add(w, "%" PRIu64 " free, %" PRIu64 " wanted", s->have, s->wanted);
	else
		words_add(w, "%s free, %s wanted", size_format(have, sizeof(have), s->have),
			  size_format(want, sizeof(want), s->wanted));
}

static void words_add_amounts(struct words *w, const struct policy *p, enum limit limit,
			      const struct limit_shortage *s)
{
	char have[32], want[32];

	words_add(w, "%s is %s", limit_names[limit],
		  limit == LIMIT_FREE || limit == LIMIT_INODES ? "not reached" : "exceeded");
	if (s->series && s->series[0])
		words_add(w, " in %.100s", s->series);
	words_add(w, ": ");
	switch (limit) {
	case LIMIT_FREE:
		words_add_free(w, &p->min_free_below, s, false);
		break;
	case LIMIT_INODES:
		words_add_free(w, &p->min_inodes_below, s, true);
		break;
	case LIMIT_FILES:
		words_add(w, "%" PRIu64 " entries, %" PRIu64 " allowed", s->have, s->wanted);
		break;
	case LIMIT_SIZE:
	case LIMIT_SERIES_SIZE:
	case LIMITS:
		words_add(w, "%s, %s allowed", size_format(have, sizeof(have), s->have),
			  size_format(want, sizeof(want), s->wanted));
		break;
	}
	if (s->is_hopeless)
		words_add(w, ", which the entries that can never be deleted exceed by themselves, "
			     "so it deletes nothing");
}

char *limit_words(char buf[static LIMIT_WORDS], const struct policy *p,
		  const struct policy_plan *plan, enum limit limit)
{
	struct words w = { buf, 0 };
	bool any = false;

	words_add_amounts(&w, p, limit, &plan->shortages[limit]);
	for (enum disposition by = 0; by < DISPOSITIONS; by++) {
		uint64_t n = plan->kept[by];

		/* What max-delete keeps is counted below, and what no limit wants is no obstacle.
		 */
		if (n == 0 || disposition_deletes(by) || by == DISPOSITION_WITHIN_LIMITS)
			continue;
		if (!any)
			words_add(&w, ": %" PRIu64 " %s %s %s", n, n == 1 ? "entry" : "entries",
				  n == 1 ? "is" : "are", disposition_state(by));
		else
			words_add(&w, ", %" PRIu64 " %s %s", n, n == 1 ? "is" : "are",
				  disposition_state(by));
		any = true;
	}
	if (plan->excess.n > 0)
		words_add(&w, "%s%" PRIu64 " %s kept by max-delete (%.0f %%)", any ? ", " : ": ",
			  plan->excess.n, plan->excess.n == 1 ? "is" : "are", 100 * p->max_delete);
	else if (!any)
		words_add(&w, plan->matched.n == 0 ? ": nothing matches"
			      : plan->matched.n > plan->deleted.n
				      ? ": no other entry may be deleted"
				      : ": no more entries match");
	return buf;
}
