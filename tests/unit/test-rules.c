/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "policy/retention.h"
#include "policy/rules.h"
#include "support.h"
#include "base/macros.h"

#define DAY_USEC (86400 * USEC_PER_SEC)
#define NOW (20000 * 86400 * NSEC_PER_SEC + 43200 * NSEC_PER_SEC)

/* Adds an entry that is so many days old. */
static void add(struct policy_entries *l, const char *name, const char *series, int64_t days,
		uint64_t bytes, enum disposition disposition)
{
	struct policy_entry e = { .name = name,
				  .series = series,
				  .time_nsec = NOW - days * 86400 * NSEC_PER_SEC,
				  .bytes = bytes,
				  .disposition = (uint8_t)disposition };

	ck_assert_int_eq(entries_add(l, &e), 0);
}

/* Entries a, b, c, ... that are 0, 1, 2, ... days old, with so many bytes each. */
static void add_days(struct policy_entries *l, size_t n, uint64_t bytes)
{
	for (size_t i = 0; i < n; i++)
		add(l, (char[]){ (char)('a' + i), '\0' }, "", (int64_t)i, bytes,
		    DISPOSITION_UNDECIDED);
}

static const struct policy_entry *get(const struct policy_entries *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].name, name) == 0)
			return &l->v[i];
	ck_abort_msg("%s is not there", name);
	return NULL;
}

/* Where nothing is said of max-delete, it does not matter. */
static struct policy_plan decide(const struct policy *p, struct policy_entries *l, uint64_t free,
				 uint64_t size)
{
	struct policy_moment now = { .now_nsec = NOW,
				     .free_bytes = free,
				     .size_bytes = size,
				     .unbounded = p->max_delete <= 0 };
	struct policy_plan plan = { 0 };

	ck_assert_int_eq(rules_decide(&plan, p, l, now), 0);
	return plan;
}

/* The names that are deleted, in the order of the list. */
static const char *deleted(const struct policy_entries *l)
{
	static char names[64];
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (entry_goes(&l->v[i]))
			names[n++] = l->v[i].name[0];
	names[n] = '\0';
	return names;
}

/* Ten entries a to j of 10 bytes each, a day apart; a filesystem of 1000 bytes with 100 free. */
static const struct row {
	struct policy p;
	const char *deleted;
	enum disposition last; /* of the last one */
} rows[] = {
	{ { 0 }, "", DISPOSITION_NO_RULE },
	{ { .min_age_usec = DAY_USEC, .min_count = 3 }, "", DISPOSITION_NO_RULE },
	{ { .keep.periods[KEEP_LAST] = 3 }, "defghij", DISPOSITION_NOT_KEPT },
	{ { .keep.within_usec = 2 * DAY_USEC }, "cdefghij", DISPOSITION_NOT_KEPT },
	{ { .keep.periods[KEEP_LAST] = 3, .min_count = 5 }, "fghij", DISPOSITION_NOT_KEPT },
	{ { .keep.periods[KEEP_LAST] = 3, .min_age_usec = 5 * DAY_USEC },
	  "fghij",
	  DISPOSITION_NOT_KEPT },
	{ { .keep.periods[KEEP_LAST] = 20 }, "", DISPOSITION_KEPT },
	/* Limits never get what keep keeps. */
	{ { .keep.periods[KEEP_LAST] = 20, .max_age_usec = 1, .max_files = 1, .max_size_bytes = 1 },
	  "",
	  DISPOSITION_KEPT },
	{ { .max_age_usec = 7 * DAY_USEC }, "ij", DISPOSITION_MAX_AGE },
	{ { .max_age_usec = 7 * DAY_USEC - 1 }, "hij", DISPOSITION_MAX_AGE },
	{ { .max_age_usec = 1, .min_count = 9 }, "j", DISPOSITION_MAX_AGE },
	{ { .max_age_usec = 1, .min_count = 10 }, "", DISPOSITION_MIN_COUNT },
	{ { .max_age_usec = 1, .min_age_usec = 9 * DAY_USEC }, "j", DISPOSITION_MAX_AGE },
	{ { .max_age_usec = 1, .min_age_usec = 9 * DAY_USEC + 1 }, "", DISPOSITION_MIN_AGE },
	{ { .max_size_bytes = 100 }, "", DISPOSITION_WITHIN_LIMITS },
	{ { .max_size_bytes = 99 }, "j", DISPOSITION_MAX_SIZE },
	{ { .max_size_bytes = 25 }, "cdefghij", DISPOSITION_MAX_SIZE },
	{ { .max_size_bytes = 1 }, "abcdefghij", DISPOSITION_MAX_SIZE },
	{ { .max_size_bytes = 1, .min_count = 1 }, "bcdefghij", DISPOSITION_MAX_SIZE },
	{ { .max_files = 10 }, "", DISPOSITION_WITHIN_LIMITS },
	{ { .max_files = 4 }, "efghij", DISPOSITION_MAX_FILES },
	{ { .max_files = 4, .min_age_usec = 6 * DAY_USEC }, "ghij", DISPOSITION_MAX_FILES },
	/* What max-age has taken counts for the others. */
	{ { .max_files = 6, .max_size_bytes = 60, .max_age_usec = 7 * DAY_USEC },
	  "ghij",
	  DISPOSITION_MAX_AGE },
	{ { .min_free_below = { .bytes = 100 }, .min_free_until = { .bytes = 100 } },
	  "",
	  DISPOSITION_WITHIN_LIMITS },
	{ { .min_free_below = { .bytes = 101 }, .min_free_until = { .bytes = 101 } },
	  "j",
	  DISPOSITION_MIN_FREE },
	{ { .min_free_below = { .bytes = 100 }, .min_free_until = { .bytes = 150 } },
	  "",
	  DISPOSITION_WITHIN_LIMITS },
	{ { .min_free_below = { .is_share = true, .share = 0.11 },
	    .min_free_until = { .is_share = true, .share = 0.15 } },
	  "fghij",
	  DISPOSITION_MIN_FREE },
	{ { .min_free_below = { .bytes = 101 },
	    .min_free_until = { .bytes = 900 },
	    .min_count = 2 },
	  "cdefghij",
	  DISPOSITION_MIN_FREE },
	/* Space that others of its rules have made is enough. */
	{ { .min_free_below = { .bytes = 110 },
	    .min_free_until = { .bytes = 200 },
	    .max_age_usec = 8 * DAY_USEC },
	  "j",
	  DISPOSITION_MAX_AGE },
};

START_TEST(rules_take_what_they_may)
{
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		struct policy_entries l = { 0 };
		struct policy_plan plan;

		add_days(&l, 10, 10);
		plan = decide(&rows[i].p, &l, 100, 1000);
		ck_assert_msg(strcmp(deleted(&l), rows[i].deleted) == 0, "row %zu: %s", i,
			      deleted(&l));
		ck_assert_msg(l.v[9].disposition == rows[i].last, "row %zu: %s", i,
			      disposition_name(l.v[9].disposition));
		ck_assert_uint_eq(plan.matched.bytes, 100);
		ck_assert_uint_eq(plan.deleted.n, strlen(rows[i].deleted));
		ck_assert_uint_eq(plan.deleted.bytes, 10 * strlen(rows[i].deleted));
		policy_plan_done(&plan);
		entries_done(&l);
	}
}
END_TEST

static const enum disposition held[] = { DISPOSITION_PROTECTED, DISPOSITION_MOUNT,
					 DISPOSITION_IN_USE,    DISPOSITION_LOCKED,
					 DISPOSITION_UNREAD,    DISPOSITION_IMMUTABLE,
					 DISPOSITION_NO_TIME,   DISPOSITION_NO_SERIES,
					 DISPOSITION_NOT_EMPTY };

/* Whatever the rules: what was found to be in use stays, and counts as what it is. */
START_TEST(what_is_held_stays)
{
	struct policy p = { .max_age_usec = 1, .max_files = 1, .max_size_bytes = 1 };

	for (size_t i = 0; i < ELEMENTSOF(held); i++) {
		struct policy_entries l = { 0 };
		struct policy_plan plan;

		add(&l, "x", "", 100, 50, held[i]);
		add_days(&l, 3, 10);
		plan = decide(&p, &l, 0, 1000);
		ck_assert_str_eq(deleted(&l), "abc");
		ck_assert_int_eq(get(&l, "x")->disposition, held[i]);
		ck_assert_uint_eq(plan.refused.bytes, disposition_refuses(held[i]) ? 50 : 0);
		ck_assert_uint_eq(plan.dispositions[held[i]].bytes + plan.refused.bytes, 50);
		policy_plan_done(&plan);
		entries_done(&l);
	}
}
END_TEST

START_TEST(test_27_future_is_kept_and_counts_for_nothing)
{
	struct policy p = { .keep.periods[KEEP_LAST] = 1, .max_age_usec = 1 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add(&l, "f", "", -1, 10, DISPOSITION_UNDECIDED);
	add(&l, "g", "", -10000, 10, DISPOSITION_IN_USE);
	add_days(&l, 3, 10);
	plan = decide(&p, &l, 0, 0);
	ck_assert_str_eq(deleted(&l), "bc");
	ck_assert_int_eq(get(&l, "f")->disposition, DISPOSITION_FUTURE);
	ck_assert_int_eq(get(&l, "g")->disposition, DISPOSITION_IN_USE);
	ck_assert_int_eq(get(&l, "a")->disposition, DISPOSITION_KEPT);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

/* Of empty directories; but max-delete and the number go by all of them. */
START_TEST(what_is_not_empty_has_no_place_in_a_series)
{
	struct policy p = { .keep.periods[KEEP_LAST] = 1, .max_delete = 0.4 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add(&l, "x", "", -1, 10, DISPOSITION_NOT_EMPTY);
	add(&l, "y", "", 0, 10, DISPOSITION_NOT_EMPTY);
	add(&l, "z", "", 100, 10, DISPOSITION_NOT_EMPTY);
	add_days(&l, 3, 10);
	plan = decide(&p, &l, 0, 0);
	ck_assert_str_eq(deleted(&l), "bc");
	ck_assert_int_eq(get(&l, "x")->disposition, DISPOSITION_NOT_EMPTY);
	ck_assert_int_eq(get(&l, "z")->disposition, DISPOSITION_NOT_EMPTY);
	ck_assert_int_eq(get(&l, "a")->disposition, DISPOSITION_KEPT);
	ck_assert_uint_eq(plan.dispositions[DISPOSITION_NOT_EMPTY].n, 3);
	ck_assert_int_eq(plan.oldest_nsec, get(&l, "a")->time_nsec);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

START_TEST(each_series_keeps_its_own)
{
	struct policy p = { .keep.periods[KEEP_LAST] = 1, .min_count = 2 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add(&l, "a", "x", 9, 10, DISPOSITION_UNDECIDED);
	add(&l, "b", "y", 1, 10, DISPOSITION_UNDECIDED);
	add(&l, "c", "x", 8, 10, DISPOSITION_UNDECIDED);
	add(&l, "d", "y", 3, 10, DISPOSITION_UNDECIDED);
	add(&l, "e", "x", 7, 10, DISPOSITION_UNDECIDED);
	add(&l, "g", "y", 2, 10, DISPOSITION_UNDECIDED);
	plan = decide(&p, &l, 0, 0);
	ck_assert_str_eq(deleted(&l), "ad");
	ck_assert_int_eq(get(&l, "c")->disposition, DISPOSITION_MIN_COUNT);
	ck_assert_uint_eq(get(&l, "e")->kept_by, 1U << KEEP_LAST);
	/* By series, newest first. */
	for (size_t i = 0; i < 6; i++)
		ck_assert_int_eq(l.v[plan.order[i]].name[0], "ecabgd"[i]);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

START_TEST(limits_go_by_their_order)
{
	struct policy p = { .max_size_bytes = 60, .order = ORDER_LARGEST };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add(&l, "a", "", 1, 30, DISPOSITION_UNDECIDED);
	add(&l, "b", "", 2, 50, DISPOSITION_UNDECIDED);
	add(&l, "c", "", 3, 30, DISPOSITION_UNDECIDED);
	add(&l, "d", "", 9, 0, DISPOSITION_UNDECIDED);
	plan = decide(&p, &l, 0, 0);
	ck_assert_str_eq(deleted(&l), "b");
	policy_plan_done(&plan);
	p.order = ORDER_OLDEST;
	for (size_t i = 0; i < l.n; i++)
		l.v[i].disposition = DISPOSITION_UNDECIDED;
	plan = decide(&p, &l, 0, 0);
	/* d frees nothing. */
	ck_assert_str_eq(deleted(&l), "bc");
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

static void undecide(struct policy_entries *l)
{
	for (size_t i = 0; i < l->n; i++)
		l->v[i].disposition = DISPOSITION_UNDECIDED;
}

/* Too much of what goes by age is a wrong clock or pattern: none of it goes. */
/* Or all would go, and there would still be as much free as before: none. */
START_TEST(without_a_size_no_space_is_short)
{
	const struct policy p = { .min_free_below = { .bytes = 20 },
				  .min_free_until = { .bytes = 20 } };

	for (uint64_t size = 0; size <= 100; size += 100) {
		struct policy_entries l = { 0 };
		struct policy_plan plan;

		add_days(&l, 10, 10);
		plan = decide(&p, &l, 0, size);
		ck_assert_str_eq(deleted(&l), size > 0 ? "ij" : "");
		policy_plan_done(&plan);
		entries_done(&l);
	}
}
END_TEST

/* Ten entries a to j of 10 bytes and an inode each, but h and i, which have other names; of 1000
 * inodes 100 are free. */
static const struct {
	struct policy_space below, until;
	uint64_t inodes;
	const char *deleted;
} inode_rows[] = {
	{ { .bytes = 100 }, { .bytes = 100 }, 1000, "" },
	{ { .bytes = 101 }, { .bytes = 101 }, 1000, "j" },
	{ { .bytes = 100 }, { .bytes = 150 }, 1000, "" },
	{ { .bytes = 101 }, { .bytes = 103 }, 1000, "fgj" },
	{ { .is_share = true, .share = 0.102 }, { .is_share = true, .share = 0.102 }, 1000, "gj" },
	{ { .bytes = 101 }, { .bytes = 900 }, 1000, "abcdefgj" },
	/* There is no number of which they could be few. */
	{ { .bytes = 101 }, { .bytes = 900 }, 0, "" },
	{ { .is_share = true, .share = 1 }, { .is_share = true, .share = 1 }, 0, "" },
};

START_TEST(inodes_are_freed_up_to_the_mark)
{
	for (size_t i = 0; i < ELEMENTSOF(inode_rows); i++) {
		const struct policy p = { .min_inodes_below = inode_rows[i].below,
					  .min_inodes_until = inode_rows[i].until };
		const struct policy_moment now = { .now_nsec = NOW,
						   .free_inodes = 100,
						   .inodes = inode_rows[i].inodes,
						   .unbounded = true };
		struct policy_entries l = { 0 };
		struct policy_plan plan;

		add_days(&l, 10, 10);
		for (size_t k = 0; k < l.n; k++)
			l.v[k].inodes = k != 7 && k != 8;
		ck_assert_int_eq(rules_decide(&plan, &p, &l, now), 0);
		ck_assert_msg(strcmp(deleted(&l), inode_rows[i].deleted) == 0, "row %zu: %s", i,
			      deleted(&l));
		ck_assert_uint_eq(plan.dispositions[DISPOSITION_MIN_INODES].n, plan.deleted.n);
		policy_plan_done(&plan);
		entries_done(&l);
	}
}
END_TEST

/* Empty files are no bytes of what matches, and still not without a bound. */
START_TEST(max_delete_bounds_empty_files_for_inodes)
{
	const struct policy p = { .min_inodes_below = { .bytes = 1000 },
				  .min_inodes_until = { .bytes = 1000 },
				  .max_delete = 0.2 };
	const struct policy_moment now = { .now_nsec = NOW, .inodes = 1000 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add_days(&l, 10, 0);
	l.v[0].bytes = 1000;
	for (size_t k = 0; k < l.n; k++)
		l.v[k].inodes = 1;
	ck_assert_int_eq(rules_decide(&plan, &p, &l, now), 0);
	ck_assert_str_eq(deleted(&l), "ij");
	ck_assert_uint_eq(plan.excess.n, 8);
	ck_assert_double_eq_tol(plan.share, 1, 1e-9);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

START_TEST(ages_go_up_to_max_delete_or_not_at_all)
{
	struct policy p = { .max_age_usec = 7 * DAY_USEC, .max_delete = 0.2 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add_days(&l, 10, 10);
	plan = decide(&p, &l, 0, 0);
	ck_assert_uint_eq(plan.deleted.n, 2);
	ck_assert_uint_eq(plan.excess.n, 0);
	ck_assert(!plan.is_over);
	policy_plan_done(&plan);
	p.max_age_usec = 6 * DAY_USEC;
	undecide(&l);
	plan = decide(&p, &l, 0, 0);
	ck_assert_str_eq(deleted(&l), "");
	ck_assert_uint_eq(plan.deleted.n, 0);
	ck_assert_uint_eq(plan.excess.bytes, 30);
	ck_assert_double_eq_tol(plan.share, 0.3, 1e-9);
	ck_assert(plan.is_over);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

/* Limits know how much they need, and begin with the oldest: the rest is for the next run. */
START_TEST(limits_go_up_to_max_delete)
{
	static const struct {
		double max_delete;
		const char *deleted;
		uint64_t excess;
		bool is_over;
	} bounds[] = { { 1, "cdefghij", 0, false },   { 0.8, "cdefghij", 0, false },
		       { 0.79, "defghij", 1, false }, { 0.2, "ij", 6, false },
		       { 0.19, "j", 7, false },       { 0.01, "j", 7, false } };
	static const struct policy limits[] = {
		{ .max_size_bytes = 25 },
		{ .max_files = 2 },
		{ .min_free_below = { .bytes = 101 }, .min_free_until = { .bytes = 180 } },
	};
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add_days(&l, 10, 10);
	for (size_t i = 0; i < ELEMENTSOF(bounds) * ELEMENTSOF(limits); i++) {
		struct policy p = limits[i % ELEMENTSOF(limits)];
		size_t k = i / ELEMENTSOF(limits);

		p.max_delete = bounds[k].max_delete;
		undecide(&l);
		plan = decide(&p, &l, 100, 1000);
		ck_assert_str_eq(deleted(&l), bounds[k].deleted);
		ck_assert_uint_eq(plan.deleted.n, strlen(bounds[k].deleted));
		ck_assert_uint_eq(plan.excess.n, bounds[k].excess);
		ck_assert_int_eq(plan.is_over, bounds[k].is_over);
		policy_plan_done(&plan);
	}
	entries_done(&l);
}
END_TEST

/* With 0% it is on purpose that nothing goes; and that is said. */
START_TEST(max_delete_of_nothing_is_over)
{
	struct policy p = { .max_size_bytes = 25 };
	struct policy_entries l = { 0 };
	struct policy_plan plan = { 0 };

	add_days(&l, 10, 10);
	ck_assert_int_eq(rules_decide(&plan, &p, &l, (struct policy_moment){ .now_nsec = NOW }), 0);
	ck_assert_str_eq(deleted(&l), "");
	ck_assert_uint_eq(plan.excess.n, 8);
	ck_assert(plan.is_over);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

/* The order is kept: what is small and newer does not go in the place of what does not fit. */
START_TEST(max_delete_stops_at_what_does_not_fit)
{
	struct policy p = { .max_size_bytes = 1, .max_delete = 0.2 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add(&l, "a", "", 1, 100, DISPOSITION_UNDECIDED);
	add(&l, "b", "", 2, 1, DISPOSITION_UNDECIDED);
	add(&l, "c", "", 3, 30, DISPOSITION_UNDECIDED);
	add(&l, "d", "", 4, 10, DISPOSITION_UNDECIDED);
	plan = decide(&p, &l, 0, 0);
	ck_assert_str_eq(deleted(&l), "d");
	ck_assert_uint_eq(plan.excess.n, 3);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

/* When it is too much by age, a full disk is no less full: the limit takes what it needs. */
START_TEST(limits_go_on_where_ages_are_over)
{
	struct policy p = { .max_age_usec = 6 * DAY_USEC,
			    .min_free_below = { .bytes = 101 },
			    .min_free_until = { .bytes = 115 },
			    .max_delete = 0.2 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add_days(&l, 10, 10);
	plan = decide(&p, &l, 100, 1000);
	ck_assert_str_eq(deleted(&l), "ij");
	ck_assert_int_eq(get(&l, "j")->disposition, DISPOSITION_MIN_FREE);
	ck_assert_int_eq(get(&l, "h")->disposition, DISPOSITION_MAX_AGE);
	ck_assert_uint_eq(plan.excess.n, 1);
	ck_assert(plan.is_over);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

/* What cannot go is told where a rule wants it, and only there; the others go all the same, and
 * limits take the next one. */
START_TEST(what_cannot_go_is_refused)
{
	static const struct {
		struct policy p;
		const char *deleted;
		uint64_t refused;
	} cases[] = {
		{ { .max_age_usec = 7 * DAY_USEC }, "i", 1 },
		{ { .max_age_usec = 20 * DAY_USEC }, "", 0 },
		{ { .max_age_usec = 7 * DAY_USEC, .min_count = 10 }, "", 0 },
		{ { .keep.periods[KEEP_LAST] = 8 }, "i", 1 },
		{ { .keep.periods[KEEP_LAST] = 10 }, "", 0 },
		{ { .max_files = 8 }, "hi", 1 },
		{ { .max_files = 10 }, "", 0 },
		{ { .max_files = 8, .min_count = 10 }, "", 0 },
		{ { .max_size_bytes = 85 }, "hi", 1 },
	};

	for (size_t i = 0; i < 2 * ELEMENTSOF(cases); i++) {
		struct policy_entries l = { 0 };
		struct policy_plan plan;

		add_days(&l, 10, 10);
		l.v[9].disposition = i % 2 ? DISPOSITION_IMMUTABLE : DISPOSITION_UNREAD;
		plan = decide(&cases[i / 2].p, &l, 0, 0);
		ck_assert_msg(strcmp(deleted(&l), cases[i / 2].deleted) == 0, "case %zu: %s", i / 2,
			      deleted(&l));
		ck_assert_uint_eq(plan.refused.n, cases[i / 2].refused);
		ck_assert_uint_eq(l.v[9].stays, cases[i / 2].refused);
		ck_assert_int_eq(plan.oldest_nsec, l.v[9].time_nsec);
		policy_plan_done(&plan);
		entries_done(&l);
	}
}
END_TEST

START_TEST(the_oldest_that_stays)
{
	struct policy p = { .max_age_usec = 7 * DAY_USEC };
	struct policy_entries l = { 0 }, none = { 0 };
	struct policy_plan plan;

	add(&l, "x", "", 500, 10, DISPOSITION_NO_TIME);
	add(&l, "y", "", -1, 10, DISPOSITION_UNDECIDED);
	add_days(&l, 10, 10);
	plan = decide(&p, &l, 0, 0);
	ck_assert_int_eq(plan.oldest_nsec, get(&l, "h")->time_nsec);
	policy_plan_done(&plan);
	plan = decide(&p, &none, 0, 0);
	ck_assert_int_eq(plan.oldest_nsec, INT64_MAX);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

/* Names and series stay what they were, however many come after them. */
START_TEST(texts_of_many_entries_stay)
{
	struct policy_entries l = { 0 };
	char name[PATH_MAX], series[PATH_MAX] = "";
	const struct policy_entry e = { .name = name, .series = series };
	const size_t n = 20000;

	for (size_t i = 0; i < n; i++) {
		/* Now and then one as long as a path can be. */
		int width = i % 1000 == 999 ? PATH_MAX - 1 : 1;

		(void)snprintf(name, sizeof(name), "%0*zu", width, i);
		if (i >= 100)
			(void)snprintf(series, sizeof(series), "%0*zu", width, i / 50);
		ck_assert_int_eq(entries_add(&l, &e), 0);
	}
	memset(name, 'x', sizeof(name));
	memset(series, 'x', sizeof(series));
	ck_assert_uint_eq(l.n, n);
	for (size_t i = 0; i < n; i++) {
		ck_assert_uint_eq(strtoul(l.v[i].name, NULL, 10), i);
		ck_assert_uint_eq(strtoul(l.v[i].series, NULL, 10), i < 100 ? 0 : i / 50);
		ck_assert_uint_eq(strlen(l.v[i].series) == 0, i < 100);
	}
	entries_done(&l);
	ck_assert_uint_eq(l.n, 0);
}
END_TEST

START_TEST(test_27_times_out_of_the_ordinary)
{
	struct policy p = { .max_age_usec = 36500 * DAY_USEC };
	struct policy_entry e = { .name = "x", .series = "" };
	static const int64_t times[] = { INT64_MIN, INT64_MIN / 2, -1, 0, NOW, INT64_MAX };
	static const enum disposition dispositions[] = {
		DISPOSITION_MAX_AGE,       DISPOSITION_MAX_AGE,       DISPOSITION_WITHIN_LIMITS,
		DISPOSITION_WITHIN_LIMITS, DISPOSITION_WITHIN_LIMITS, DISPOSITION_FUTURE
	};

	for (size_t i = 0; i < ELEMENTSOF(times); i++) {
		struct policy_entries l = { 0 };
		struct policy_plan plan;

		e.time_nsec = times[i];
		ck_assert_int_eq(entries_add(&l, &e), 0);
		plan = decide(&p, &l, 0, 0);
		ck_assert_msg(l.v[0].disposition == dispositions[i], "%zu: %s", i,
			      disposition_name(l.v[0].disposition));
		policy_plan_done(&plan);
		entries_done(&l);
	}
}
END_TEST

/* xorshift: the same numbers on each machine. */
static uint64_t draw(uint64_t *state, uint64_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % below;
}

static void random_policy(struct policy *p, uint64_t *s)
{
	*p = (struct policy){ .max_delete = 1 };
	for (int i = 0; i < KEEP_WITHIN; i++)
		if (draw(s, 3) == 0)
			p->keep.periods[i] = draw(s, 8);
	if (draw(s, 2) == 0)
		memset(&p->keep, 0, sizeof(p->keep));
	if (draw(s, 4) == 0)
		p->keep.within_usec = draw(s, 40) * DAY_USEC;
	if (draw(s, 2) == 0)
		p->max_age_usec = draw(s, 200) * DAY_USEC;
	if (draw(s, 2) == 0)
		p->max_size_bytes = draw(s, 3000);
	if (draw(s, 2) == 0)
		p->max_files = draw(s, 60);
	if (draw(s, 2) == 0)
		p->min_free_below.bytes = p->min_free_until.bytes = draw(s, 3000);
	if (draw(s, 3) == 0)
		p->min_count = draw(s, 10);
	if (draw(s, 3) == 0)
		p->min_age_usec = draw(s, 50) * DAY_USEC;
	p->order = draw(s, 2) ? ORDER_OLDEST : ORDER_LARGEST;
}

static struct policy_entry random_entry(char name[8], uint64_t i, uint64_t *s)
{
	static const char *const series[] = { "", "x", "y" };

	(void)snprintf(name, 8, "%04lu", (unsigned long)i);
	return (struct policy_entry){ .name = name,
				      .series = series[draw(s, 3)],
				      .time_nsec = NOW + (10 - (int64_t)draw(s, 250)) * 43200 *
								 NSEC_PER_SEC,
				      .bytes = draw(s, 100) };
}

/* Sometimes something has been found that keeps it. */
static enum disposition random_disposition(uint64_t *s)
{
	return draw(s, 6) == 0 ? held[draw(s, ELEMENTSOF(held))] : DISPOSITION_UNDECIDED;
}

static void random_entries(struct policy_entries *l, uint64_t n, uint64_t *s)
{
	for (uint64_t i = 0; i < n; i++) {
		char name[8];
		struct policy_entry e = random_entry(name, i, s);

		e.disposition = (uint8_t)random_disposition(s);
		ck_assert_int_eq(entries_add(l, &e), 0);
	}
}

/* What has the disposition that it had before anything was decided. */
static void copy_turned(struct policy_entries *to, const struct policy_entries *from)
{
	for (size_t i = from->n; i-- > 0;)
		ck_assert_int_eq(entries_add(to, &from->v[i]), 0);
}

/* Of what a series has, that many are left, if it has them. */
static void check_min_count(const struct policy *p, const struct policy_entries *l,
			    const char *series)
{
	uint64_t all = 0, left = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct policy_entry *e = &l->v[i];
		bool counts = strcmp(e->series, series) == 0 && e->time_nsec <= NOW &&
			      e->disposition != DISPOSITION_NO_TIME &&
			      e->disposition != DISPOSITION_NO_SERIES;

		all += counts;
		left += counts && !disposition_deletes(e->disposition);
	}
	ck_assert_uint_ge(left, MIN(all, p->min_count));
}

/* Nothing that a rule keeps goes, nor what is too young, nor what is to come. */
static void check_deleted(const struct policy *p, const struct policy_entry *e)
{
	ck_assert_uint_eq(e->kept_by, 0);
	ck_assert_int_le(e->time_nsec, NOW);
	ck_assert_uint_ge((uint64_t)(NOW - e->time_nsec) / 1000, p->min_age_usec);
	ck_assert(policy_has_rules(p));
}

static void check_invariants(const struct policy *p, const struct policy_entries *l,
			     const struct policy_plan *plan)
{
	struct policy_sum kept = { 0 }, gone = { 0 };

	for (size_t i = 0; i < l->n; i++) {
		const struct policy_entry *e = &l->v[i];
		struct policy_sum *s = disposition_deletes(e->disposition) ? &gone : &kept;

		s->n++;
		s->bytes += e->bytes;
		ck_assert_int_ne(e->disposition, DISPOSITION_UNDECIDED);
		if (disposition_deletes(e->disposition))
			check_deleted(p, e);
	}
	ck_assert_uint_eq(gone.n, plan->deleted.n);
	ck_assert_uint_eq(gone.bytes, plan->deleted.bytes);
	ck_assert_uint_eq(kept.n + gone.n, plan->matched.n);
	ck_assert_uint_eq(kept.bytes + gone.bytes, plan->matched.bytes);
	for (size_t i = 0; i < l->n; i++)
		check_min_count(p, l, l->v[i].series);
}

/* For any input: what is kept and what goes is what matched; nothing goes that may not; what was
 * held stays so; and the order in which the entries came does not matter. */
START_TEST(any_input)
{
	uint64_t s = 88172645463325252ULL;

	for (unsigned round = 0; round < 2000; round++) {
		struct policy_entries l = { 0 }, turned = { 0 }, before = { 0 };
		struct policy_plan plan, again;
		struct policy p;

		random_policy(&p, &s);
		random_entries(&l, draw(&s, 80), &s);
		copy_turned(&turned, &l);
		copy_turned(&before, &l);
		plan = decide(&p, &l, 1000, 5000);
		again = decide(&p, &turned, 1000, 5000);
		check_invariants(&p, &l, &plan);
		for (size_t i = 0; i < l.n; i++) {
			size_t back = l.n - 1 - i;

			ck_assert_int_eq(l.v[i].disposition, turned.v[back].disposition);
			ck_assert_str_eq(l.v[plan.order[i]].name, turned.v[again.order[i]].name);
			if (before.v[back].disposition != DISPOSITION_UNDECIDED)
				ck_assert_int_eq(l.v[i].disposition, before.v[back].disposition);
		}
		policy_plan_done(&plan);
		policy_plan_done(&again);
		entries_done(&l);
		entries_done(&turned);
		entries_done(&before);
	}
}
END_TEST

/* What the rules of keep would keep if they were alone stays, whatever presses. */
START_TEST(keep_never_loses_to_pressure)
{
	uint64_t s = 521288629546311ULL, n_kept = 0;

	for (unsigned round = 0; round < 1000; round++) {
		struct policy_entries alone = { 0 }, pressed = { 0 };
		struct policy_plan plan;
		struct policy p;

		random_policy(&p, &s);
		random_entries(&alone, draw(&s, 80), &s);
		copy_turned(&pressed, &alone);
		plan = decide(&(struct policy){ .keep = p.keep, .max_delete = 1 }, &alone, 0, 5000);
		policy_plan_done(&plan);
		p.max_size_bytes = p.max_files = p.max_age_usec = 1;
		p.min_free_below.bytes = p.min_free_until.bytes = 5000;
		plan = decide(&p, &pressed, 0, 5000);
		policy_plan_done(&plan);
		for (size_t i = 0; i < alone.n; i++)
			if (alone.v[i].disposition == DISPOSITION_KEPT) {
				n_kept++;
				ck_assert_int_eq(pressed.v[alone.n - 1 - i].disposition,
						 DISPOSITION_KEPT);
			}
		entries_done(&alone);
		entries_done(&pressed);
	}
	ck_assert_uint_gt(n_kept, 1000);
}
END_TEST

/* Comes `e` before `than`, oldest first? */
static bool is_older(const struct policy_entry *e, const struct policy_entry *than)
{
	return e->time_nsec != than->time_nsec ? e->time_nsec < than->time_nsec
					       : strcmp(e->name, than->name) < 0;
}

static bool any_kept_as_oldest(const struct policy_entries *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kept_as_oldest)
			return true;
	return false;
}

/* One more entry, anywhere, changes nothing for those that are newer. With order: largest it does,
 * as sizes say whose turn it is then; and where min-count holds an old one of one series, limits
 * get newer ones of others instead. */
START_TEST(an_older_entry_changes_nothing_for_newer_ones)
{
	uint64_t s = 362436069362436069ULL, n_newer = 0;

	for (unsigned round = 0; round < 2000; round++) {
		struct policy_entries l = { 0 }, more = { 0 };
		struct policy_plan plan;
		struct policy_entry one;
		struct policy p;
		uint64_t n = draw(&s, 80);

		random_policy(&p, &s);
		p.order = ORDER_OLDEST;
		for (uint64_t i = 0; i <= n; i++) {
			char name[8];
			struct policy_entry e = random_entry(name, i, &s);

			if (p.min_count > 0)
				e.series = "";
			if (i < n)
				ck_assert_int_eq(entries_add(&l, &e), 0);
			ck_assert_int_eq(entries_add(&more, &e), 0);
		}
		one = more.v[n];
		plan = decide(&p, &l, 2000, 5000);
		policy_plan_done(&plan);
		/* An entry that is kept because it is the oldest may be so no more. */
		if (any_kept_as_oldest(&l)) {
			entries_done(&l);
			entries_done(&more);
			continue;
		}
		/* It takes its space. */
		plan = decide(&p, &more, 2000 - one.bytes, 5000);
		policy_plan_done(&plan);
		for (size_t i = 0; i < n; i++)
			if (is_older(&one, &l.v[i])) {
				n_newer++;
				ck_assert_int_eq(l.v[i].disposition, more.v[i].disposition);
			}
		entries_done(&l);
		entries_done(&more);
	}
	ck_assert_uint_gt(n_newer, 2000);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { rules_take_what_they_may,
				 what_is_held_stays,
				 test_27_future_is_kept_and_counts_for_nothing,
				 what_is_not_empty_has_no_place_in_a_series,
				 each_series_keeps_its_own,
				 limits_go_by_their_order,
				 without_a_size_no_space_is_short,
				 inodes_are_freed_up_to_the_mark,
				 max_delete_bounds_empty_files_for_inodes,
				 ages_go_up_to_max_delete_or_not_at_all,
				 limits_go_up_to_max_delete,
				 max_delete_of_nothing_is_over,
				 max_delete_stops_at_what_does_not_fit,
				 limits_go_on_where_ages_are_over,
				 what_cannot_go_is_refused,
				 the_oldest_that_stays,
				 texts_of_many_entries_stay,
				 test_27_times_out_of_the_ordinary,
				 any_input,
				 keep_never_loses_to_pressure,
				 an_older_entry_changes_nothing_for_newer_ones };

	(void)setenv("TZ", "UTC", 1);
	tzset();
	return run_case("rules", tests, ELEMENTSOF(tests));
}
