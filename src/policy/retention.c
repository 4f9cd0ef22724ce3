/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "retention.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"

/* The rules, and which part of a time that is written by PERIOD_FORMAT is the same in the same
 * period: nanoseconds reach no year that has not four digits. It is the time that the wall clock
 * shows: an hour that comes twice when summer time ends is one. */
#define PERIOD_FORMAT "%Y%m%d%H%G%V"
static const struct {
	const char *name;
	size_t from, len;
} rules[KEEP_RULES] = {
	[KEEP_LAST] = { "last", 0, 0 },       [KEEP_HOURLY] = { "hourly", 0, 10 },
	[KEEP_DAILY] = { "daily", 0, 8 },     [KEEP_WEEKLY] = { "weekly", 10, 6 },
	[KEEP_MONTHLY] = { "monthly", 0, 6 }, [KEEP_YEARLY] = { "yearly", 0, 4 },
	[KEEP_WITHIN] = { "within", 0, 0 },
};

unsigned periods_step(struct periods *s, const struct policy_keep *k, int64_t time_nsec,
		      bool is_oldest, unsigned *ret_oldest)
{
	time_t t = time_nsec / NSEC_PER_SEC - (time_nsec % NSEC_PER_SEC < 0);
	char period[PERIOD_SIZE] = "";
	struct tm tm = { 0 };
	unsigned kept = 0;

	if (!s->begun)
		s->newest_nsec = time_nsec;
	s->begun = true;
	if ((uint64_t)s->newest_nsec - (uint64_t)time_nsec < k->within_usec * 1000)
		kept |= 1U << KEEP_WITHIN;
	(void)localtime_r(&t, &tm);
	(void)strftime(period, sizeof(period), PERIOD_FORMAT, &tm);
	*ret_oldest = 0;
	for (unsigned rule = KEEP_LAST; rule < KEEP_WITHIN; rule++) {
		size_t from = rules[rule].from;
		bool again = rule != KEEP_LAST && s->used[rule] > 0 &&
			     memcmp(s->seen[rule] + from, period + from, rules[rule].len) == 0;

		if (s->used[rule] >= k->periods[rule] || (again && !is_oldest))
			continue;
		if (again)
			*ret_oldest |= 1U << rule;
		s->used[rule]++;
		memcpy(s->seen[rule], period, sizeof(period));
		kept |= 1U << rule;
	}
	return kept;
}

const char *keep_rule_name(enum keep_rule rule)
{
	return rules[rule].name;
}

/* ---- order ------------------------------------------------------------------------------------
 */

/* What the order of units goes by. */
struct unit {
	int64_t time_nsec; /* of its newest entry that has a time */
	const char *name;  /* of its last entry by name */
	bool starts_chain;
};

struct ordering {
	const struct policy_entry *v;
	const struct unit *units; /* by number; NULL if each entry is one */
};

static struct unit unit_of(const struct ordering *o, const struct policy_entry *e)
{
	return o->units ? o->units[e->unit]
			: (struct unit){ e->time_nsec, e->name, e->starts_chain };
}

/* Orders by series, and in it by the names of units. */
static int by_unit_name(const void *a, const void *b, void *userdata)
{
	const struct policy_entry *v = userdata, *x = &v[*(const uint32_t *)a],
				  *y = &v[*(const uint32_t *)b];
	int r = strcmp(x->series, y->series);

	return r != 0 ? r : strcmp(x->unit_name, y->unit_name);
}

/* Orders by series; within one the newest unit is first, and of units of the same time the one that
 * starts a chain is last, as the others are based on it. The entries of a unit follow each other.
 */
static int by_series(const void *a, const void *b, void *userdata)
{
	const struct ordering *o = userdata;
	const struct policy_entry *x = &o->v[*(const uint32_t *)a],
				  *y = &o->v[*(const uint32_t *)b];
	const struct unit u = unit_of(o, x), w = unit_of(o, y);
	int r = strcmp(x->series, y->series);

	if (r != 0)
		return r;
	if (x->unit == y->unit)
		return entry_compare(y, x);
	if (u.time_nsec != w.time_nsec)
		return u.time_nsec > w.time_nsec ? -1 : 1;
	if (u.starts_chain != w.starts_chain)
		return u.starts_chain ? 1 : -1;
	return strcmp(w.name, u.name);
}

static void unit_add(struct unit *u, const struct policy_entry *e)
{
	if (!disposition_is_timeless((enum disposition)e->disposition))
		u->time_nsec = MAX(u->time_nsec, e->time_nsec);
	if (!u->name || strcmp(e->name, u->name) > 0)
		u->name = e->name;
	u->starts_chain = u->starts_chain || e->starts_chain;
}

/* Numbers the units of unit-by. Returns NULL if memory is short. */
static struct unit *units_find(struct policy_entries *l, uint32_t *order)
{
	struct unit *units = calloc(l->n + 1, sizeof(*units));
	uint32_t number = 0;

	if (!units)
		return NULL;
	if (l->n > 0)
		qsort_r(order, l->n, sizeof(*order), by_unit_name, l->v);
	for (size_t i = 0; i < l->n; i++) {
		struct policy_entry *e = &l->v[order[i]];

		if (i > 0 &&
		    (e->unit_name[0] == '\0' || by_unit_name(&order[i - 1], &order[i], l->v) != 0))
			number++;
		e->unit = number;
		if (!units[number].name)
			units[number].time_nsec = INT64_MIN;
		unit_add(&units[number], e);
	}
	return units;
}

/* Numbers the units, and orders all entries. */
static int units_order(const struct policy *p, struct policy_entries *l, uint32_t *order)
{
	struct unit *units = NULL;

	for (size_t i = 0; i < l->n; i++)
		order[i] = l->v[i].unit = (uint32_t)i;
	if (p->unit_by) {
		units = units_find(l, order);
		if (!units)
			return -ENOMEM;
	}
	if (l->n > 0)
		qsort_r(order, l->n, sizeof(*order), by_series, &(struct ordering){ l->v, units });
	free(units);
	return 0;
}

/* Entries that follow each other in the order. */
struct part {
	struct policy_entry *v;
	const uint32_t *order;
	size_t n;
};

static struct policy_entry *part_get(const struct part *a, size_t i)
{
	return &a->v[a->order[i]];
}

/* Returns the entries from `from` on that are of the same unit. */
static struct part unit_at(const struct part *a, size_t from)
{
	struct part unit = { a->v, a->order + from, 1 };

	while (from + unit.n < a->n && part_get(a, from + unit.n)->unit == part_get(a, from)->unit)
		unit.n++;
	return unit;
}

/* ---- decisions --------------------------------------------------------------------------------
 */

/* Returns true if the entry has no place in the order of its series. */
static bool is_apart(struct policy_entry *e, const struct policy_moment *now)
{
	if (disposition_is_timeless((enum disposition)e->disposition) ||
	    e->disposition == DISPOSITION_NO_SERIES || e->disposition == DISPOSITION_NOT_EMPTY)
		return true;
	if (e->time_nsec <= MAX(now->now_nsec, now->latest_nsec) + AHEAD_NSEC)
		return false;
	if (e->disposition == DISPOSITION_UNDECIDED)
		e->disposition = DISPOSITION_FUTURE;
	return true;
}

/* Prepares the entries of a unit, and sets *ret to the time of the newest. Returns false if the
 * rules do not apply to the unit because one of its entries has no place in the series. */
static bool unit_begin(const struct part *unit, const struct policy_moment *now, int64_t *ret)
{
	bool apart = false;

	*ret = INT64_MIN;
	for (size_t i = 0; i < unit->n; i++) {
		struct policy_entry *e = part_get(unit, i);

		e->kept_by = e->kept_as_oldest = 0;
		e->stays = false;
		e->wanted = DISPOSITION_UNDECIDED;
		apart = is_apart(e, now) || apart;
		*ret = MAX(*ret, e->time_nsec);
	}
	return !apart;
}

/* Returns what the rules say about the `nth` unit of its series, the newest being the first. */
static enum disposition rules_say(const struct policy *p, unsigned kept_by, uint64_t age,
				  uint64_t nth)
{
	if (!policy_has_rules(p))
		return DISPOSITION_NO_RULE;
	if (kept_by)
		return DISPOSITION_KEPT;
	if (nth <= p->min_count)
		return DISPOSITION_MIN_COUNT;
	if (age < p->min_age_usec)
		return DISPOSITION_MIN_AGE;
	if (policy_has_keep(p))
		return DISPOSITION_NOT_KEPT;
	if (p->max_age_usec > 0 && age > p->max_age_usec)
		return DISPOSITION_MAX_AGE;
	return DISPOSITION_WITHIN_LIMITS;
}

/* Returns how long ago that was, in µs; 0 if it is still to come. */
static uint64_t age_usec(int64_t time_nsec, int64_t now_nsec)
{
	return time_nsec < now_nsec ? ((uint64_t)now_nsec - (uint64_t)time_nsec) / 1000 : 0;
}

/* Sets `wanted` of all entries of a series. */
static void series_decide(const struct policy *p, const struct part *series,
			  const struct policy_moment *now)
{
	struct periods periods = { 0 };
	uint64_t nth = 0, applies = 0;
	int64_t time_nsec;
	struct part unit;

	static_assert(KEEP_RULES <= 8, "each has a bit of kept_by");
	for (size_t i = 0; i < series->n; i += unit.n) {
		unit = unit_at(series, i);
		applies += unit_begin(&unit, now, &time_nsec);
	}
	for (size_t i = 0; i < series->n; i += unit.n) {
		enum disposition wanted;
		unsigned kept_by, oldest;

		unit = unit_at(series, i);
		if (!unit_begin(&unit, now, &time_nsec))
			continue;
		nth++;
		kept_by = periods_step(&periods, &p->keep, time_nsec, nth == applies, &oldest);
		wanted = rules_say(p, kept_by, age_usec(time_nsec, now->now_nsec), nth);
		for (size_t k = 0; k < unit.n; k++) {
			struct policy_entry *e = part_get(&unit, k);

			e->kept_by = (uint8_t)kept_by;
			e->kept_as_oldest = (uint8_t)oldest;
			e->wanted = (uint8_t)wanted;
		}
	}
}

/* Makes one unit of each chain of a series. Its beginning is its oldest unit, so it is the last in
 * the order. Units older than all beginnings stay units of their own. */
static void chains_join(const struct part *series)
{
	size_t from = 0;
	struct part unit;

	for (size_t i = 0; i < series->n; i += unit.n) {
		bool starts = false;

		unit = unit_at(series, i);
		for (size_t k = 0; k < unit.n; k++)
			starts = starts || part_get(&unit, k)->starts_chain;
		if (!starts)
			continue;
		for (size_t k = from; k < i + unit.n; k++)
			part_get(series, k)->unit = part_get(series, i)->unit;
		from = i + unit.n;
	}
}

/* Makes the entries of a unit or chain want the same: all stay if one of them does, and none is
 * deleted for its age while a newer one is not. */
static void unit_settle(const struct part *unit)
{
	bool held = false, limited = false;

	for (size_t i = 0; i < unit->n && unit->n > 1; i++) {
		const struct policy_entry *e = part_get(unit, i);
		enum disposition found = (enum disposition)e->disposition;
		enum disposition wanted = (enum disposition)e->wanted;

		held = held || (found != DISPOSITION_UNDECIDED && !disposition_refuses(found)) ||
		       (!disposition_deletes(wanted) && wanted != DISPOSITION_WITHIN_LIMITS);
		limited = limited || wanted == DISPOSITION_WITHIN_LIMITS;
	}
	for (size_t i = 0; i < unit->n; i++) {
		struct policy_entry *e = part_get(unit, i);

		if (held &&
		    (disposition_deletes((enum disposition)e->wanted) ||
		     e->wanted == DISPOSITION_WITHIN_LIMITS || e->wanted == DISPOSITION_UNDECIDED))
			e->wanted = DISPOSITION_UNIT;
		else if (limited && !held)
			e->wanted = DISPOSITION_WITHIN_LIMITS;
	}
}

/* Sets the dispositions of the entries of a unit or chain. */
static void unit_dispose(const struct part *unit)
{
	bool refused = false;

	unit_settle(unit);
	for (size_t i = 0; i < unit->n; i++)
		refused = refused ||
			  disposition_refuses((enum disposition)part_get(unit, i)->disposition);
	for (size_t i = 0; i < unit->n; i++) {
		struct policy_entry *e = part_get(unit, i);
		bool deletes = disposition_deletes((enum disposition)e->wanted);

		if (disposition_refuses((enum disposition)e->disposition))
			e->stays = deletes;
		else if (e->disposition == DISPOSITION_UNDECIDED)
			e->disposition =
				refused && (deletes || e->wanted == DISPOSITION_WITHIN_LIMITS)
					? DISPOSITION_UNIT
					: e->wanted;
	}
}

int retention_decide(const struct policy *p, struct policy_entries *l,
		     const struct policy_moment *now, uint32_t *order)
{
	const struct part all = { l->v, order, l->n };
	int r = units_order(p, l, order);
	struct part part;

	for (size_t i = 0, to; r >= 0 && i < l->n; i = to) {
		for (to = i + 1; to < l->n && strcmp(part_get(&all, to)->series,
						     part_get(&all, i)->series) == 0;)
			to++;
		part = (struct part){ l->v, order + i, to - i };
		series_decide(p, &part, now);
		if (p->chain_start)
			chains_join(&part);
	}
	for (size_t i = 0; r >= 0 && i < l->n; i += part.n) {
		part = unit_at(&all, i);
		unit_dispose(&part);
	}
	return r;
}
