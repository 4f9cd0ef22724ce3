/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Limits, and what a set of entries frees, on entries made by hand and by chance. Those made by
 * chance are compared with a model that counts every set anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "policy/limits.h"
#include "policy/result.h"
#include "policy/retention.h"
#include "policy/rules.h"
#include "support.h"

#define NOW (20000 * 86400 * NSEC_PER_SEC)
#define DAY_NSEC (86400 * NSEC_PER_SEC)

/* ---- made by hand ---------------------------------------------------------------------------- */

/* Adds an entry, `days` old, of `bytes` bytes of its own, and of the files in `links`, which end
 * with a file of inode 0. */
static void add(struct policy_entries *l, const char *name, int64_t days, uint64_t bytes,
		enum disposition disposition, const struct link_file *links)
{
	struct policy_entry e = { .name = name,
				  .series = "",
				  .time_nsec = NOW - days * DAY_NSEC,
				  .bytes = bytes,
				  .referenced_bytes = bytes,
				  .inodes = 1,
				  .disposition = (uint8_t)disposition };

	for (const struct link_file *f = links; f && f->ino; f++)
		e.referenced_bytes += f->bytes;
	ck_assert_int_eq(entries_add(l, &e), 0);
	for (const struct link_file *f = links; f && f->ino; f++)
		ck_assert_int_eq(entries_add_link(l, f), 0);
}

/* Returns the first letters of the names that go, in the order of the list. */
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

/* Decides anew, as if nothing had been decided of entries that the limits may take. */
static struct policy_plan decide(const struct policy *p, struct policy_entries *l,
				 struct policy_moment now)
{
	struct policy_plan plan = { 0 };

	now.now_nsec = NOW;
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].disposition >= DISPOSITION_FUTURE)
			l->v[i].disposition = DISPOSITION_UNDECIDED;
	ck_assert_int_eq(rules_decide(&plan, p, l, now), 0);
	return plan;
}

static const struct policy free_150 = { .min_free_below = { .bytes = 150 },
					.min_free_until = { .bytes = 150 },
					.max_delete = 1 };
static const struct policy_moment free_100 = { .free_bytes = 100, .size_bytes = 1000 };

static const char *words(const struct policy *p, const struct policy_plan *plan, enum limit limit)
{
	static char buf[LIMIT_WORDS];

	return limit_words(buf, p, plan, limit);
}

START_TEST(a_file_is_freed_with_its_last_name)
{
	/* b and c have the two names of a file; d has one of three of another. */
	const struct link_file both[] = { { 7, 60, 1, 2, 1 }, { 0 } };
	const struct link_file outside[] = { { 8, 500, 1, 3, 1 }, { 0 } };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add(&l, "a", 1, 50, DISPOSITION_UNDECIDED, NULL);
	add(&l, "b", 3, 0, DISPOSITION_UNDECIDED, both);
	add(&l, "c", 2, 0, DISPOSITION_UNDECIDED, both);
	add(&l, "d", 4, 0, DISPOSITION_UNDECIDED, outside);
	plan = decide(&free_150, &l, free_100);
	ck_assert_str_eq(deleted(&l), "bc");
	ck_assert_uint_eq(plan.deleted.bytes, 60);
	ck_assert_uint_eq(plan.matched.bytes, 110);
	ck_assert_int_eq(l.v[3].disposition, DISPOSITION_FREES_NOTHING);
	ck_assert(!limits_are_unmet(&plan));
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

START_TEST(an_entry_that_helps_nothing_is_spared)
{
	/* a keeps the file that b and c have names of. */
	const struct link_file all[] = { { 7, 600, 1, 3, 1 }, { 0 } };
	struct policy p = free_150;
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	p.min_count = 1;
	add(&l, "a", 1, 1, DISPOSITION_UNDECIDED, all);
	add(&l, "b", 8, 1, DISPOSITION_UNDECIDED, all);
	add(&l, "c", 7, 1, DISPOSITION_UNDECIDED, all);
	add(&l, "d", 6, 70, DISPOSITION_UNDECIDED, NULL);
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "d");
	policy_plan_done(&plan);
	/* Without d the limit is out of reach, and the bytes of b and c are next to nothing. */
	l.v[3].disposition = DISPOSITION_IN_USE;
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "");
	ck_assert_str_eq(words(&p, &plan, LIMIT_FREE),
			 "min-free is not reached: 100 B free, 150 B wanted: 1 entry is open, 1 is "
			 "kept by min-count, 2 are of no use, as deleting them frees nothing");
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

START_TEST(the_largest_is_the_group_of_names)
{
	const struct link_file both[] = { { 7, 600, 1, 2, 1 }, { 0 } };
	struct policy p = free_150;
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	p.order = ORDER_LARGEST;
	add(&l, "a", 9, 200, DISPOSITION_UNDECIDED, NULL);
	add(&l, "b", 1, 0, DISPOSITION_UNDECIDED, both);
	add(&l, "c", 1, 0, DISPOSITION_UNDECIDED, both);
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "bc");
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

START_TEST(inodes_are_freed_with_the_last_name)
{
	const struct link_file both[] = { { 7, 1024, 1, 2, 1 }, { 0 } };
	struct policy_entries l = { .inode_bytes = 256 };
	struct policy_set s;

	add(&l, "a", 1, 0, DISPOSITION_UNDECIDED, both);
	add(&l, "b", 1, 0, DISPOSITION_UNDECIDED, both);
	s = set_begin(&l);
	set_add(&s, &l, 0);
	ck_assert_uint_eq(s.inodes, 1);
	set_add(&s, &l, 1);
	ck_assert_uint_eq(s.inodes, 2 + 1 + 4);
	set_remove(&s, &l, 0);
	ck_assert_uint_eq(s.inodes, 1);
	ck_assert_uint_eq(s.bytes, 0);
	entries_done(&l);
}
END_TEST

/* What can never be deleted must not let a limit delete everything else. */
START_TEST(a_limit_that_is_out_of_reach_deletes_nothing)
{
	static const enum disposition never[] = { DISPOSITION_PINNED,    DISPOSITION_NO_TIME,
						  DISPOSITION_NO_SERIES, DISPOSITION_PROTECTED,
						  DISPOSITION_MOUNT,     DISPOSITION_IMMUTABLE };
	const struct policy limits[] = { { .max_size_bytes = 50, .max_delete = 1 },
					 { .max_files = 1, .max_delete = 1 } };

	for (size_t i = 0; i < 2 * ELEMENTSOF(never); i++) {
		const struct policy *p = &limits[i % 2];
		enum limit limit = i % 2 ? LIMIT_FILES : LIMIT_SIZE;
		struct policy_entries l = { 0 };
		struct policy_plan plan;

		add(&l, "x", 30, 60, never[i / 2], NULL);
		add(&l, "y", 31, 60, never[i / 2], NULL);
		add(&l, "a", 1, 10, DISPOSITION_UNDECIDED, NULL);
		add(&l, "b", 2, 10, DISPOSITION_UNDECIDED, NULL);
		plan = decide(p, &l, free_100);
		ck_assert_str_eq(deleted(&l), "");
		ck_assert(plan.shortages[limit].is_unmet && plan.shortages[limit].is_hopeless);
		ck_assert_ptr_nonnull(strstr(words(p, &plan, limit), "can never be deleted"));
		policy_plan_done(&plan);
		entries_done(&l);
	}
}
END_TEST

/* What may go later is no reason to let the filesystem fill. */
START_TEST(a_limit_that_is_not_met_now_goes_as_far_as_it_may)
{
	struct policy p = { .max_size_bytes = 50, .max_delete = 1 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add(&l, "x", 30, 60, DISPOSITION_IN_USE, NULL);
	add(&l, "a", 1, 10, DISPOSITION_UNDECIDED, NULL);
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "a");
	ck_assert_str_eq(words(&p, &plan, LIMIT_SIZE),
			 "max-size is exceeded: 60 B, 50 B allowed: 1 entry is open");
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

/* The largest share counts: of the number, of the bytes that are freed, of those in the entries. */
START_TEST(max_delete_is_of_all_three)
{
	static const struct {
		uint64_t goes[2],
			stays[2]; /* bytes of its own, and of a file with names elsewhere */
		unsigned n_going, n_staying;
		double share;
	} rows[] = {
		{ { 90, 0 }, { 10, 0 }, 1, 1, 0.9 },
		{ { 0, 90 }, { 10, 0 }, 1, 1, 0.9 },
		{ { 0, 0 }, { 1, 0 }, 3, 1, 0.75 },
		{ { 0, 0 }, { 0, 0 }, 1, 1, 0.5 },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		struct policy p = { .max_age_usec = 5 * 86400 * USEC_PER_SEC };
		struct policy_entries l = { 0 };
		struct policy_plan plan;

		for (unsigned k = 0; k < rows[i].n_going + rows[i].n_staying; k++) {
			bool goes = k < rows[i].n_going;
			const uint64_t *bytes = goes ? rows[i].goes : rows[i].stays;
			const struct link_file f[] = { { bytes[1] ? 50 + k : 0, bytes[1], 1, 2, 1 },
						       { 0 } };

			add(&l, (char[]){ (char)('a' + k), '\0' }, goes ? 9 : 1, bytes[0],
			    DISPOSITION_UNDECIDED, f);
		}
		p.max_delete = rows[i].share;
		plan = decide(&p, &l, free_100);
		ck_assert_uint_eq(plan.deleted.n, rows[i].n_going);
		policy_plan_done(&plan);
		p.max_delete = rows[i].share - 0.01;
		plan = decide(&p, &l, free_100);
		ck_assert_uint_eq(plan.deleted.n, 0);
		ck_assert(plan.is_over);
		ck_assert_double_eq_tol(plan.share, rows[i].share, 1e-9);
		policy_plan_done(&plan);
		entries_done(&l);
	}
}
END_TEST

START_TEST(each_series_has_a_size)
{
	const struct policy p = { .max_series_size_bytes = 25, .max_delete = 1 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	for (unsigned k = 0; k < 6; k++)
		add(&l, (char[]){ (char)('a' + k), '\0' }, k, 10, DISPOSITION_UNDECIDED, NULL);
	for (unsigned k = 0; k < 6; k++)
		l.v[k].series = k % 3 ? "x" : "y";
	plan = decide(&p, &l, free_100);
	/* y has a and d; x has b, c, e and f. */
	ck_assert_str_eq(deleted(&l), "ef");
	ck_assert(!limits_are_unmet(&plan));
	policy_plan_done(&plan);
	l.v[5].disposition = DISPOSITION_IN_USE;
	l.v[4].disposition = DISPOSITION_IN_USE;
	l.v[2].disposition = DISPOSITION_IN_USE;
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "b");
	ck_assert_str_eq(
		words(&p, &plan, LIMIT_SERIES_SIZE),
		"max-size-per-series is exceeded in x: 30 B, 25 B allowed: 3 entries are open");
	ck_assert_str_eq(plan.shortages[LIMIT_SERIES_SIZE].series, "x");
	policy_plan_done(&plan);
	/* The clock of x was wrong, so deleting b would not help. */
	l.v[5].time_nsec = l.v[4].time_nsec = l.v[2].time_nsec = NOW + DAY_NSEC;
	l.v[5].disposition = l.v[4].disposition = l.v[2].disposition = DISPOSITION_UNDECIDED;
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "");
	ck_assert(plan.shortages[LIMIT_SERIES_SIZE].is_hopeless);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

START_TEST(limits_take_whole_units)
{
	char text[] = "(.)", *starts[] = { text, NULL };
	struct policy p = free_150;
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	/* a, b and c are a unit as old as c; d is older, and e younger. */
	add(&l, "a", 9, 30, DISPOSITION_UNDECIDED, NULL);
	add(&l, "b", 8, 0, DISPOSITION_UNDECIDED, NULL);
	add(&l, "c", 3, 30, DISPOSITION_UNDECIDED, NULL);
	add(&l, "d", 5, 30, DISPOSITION_UNDECIDED, NULL);
	add(&l, "e", 1, 30, DISPOSITION_UNDECIDED, NULL);
	p.unit_by = text;
	for (size_t i = 0; i < 3; i++)
		l.v[i].unit_name = "u";
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "abcd");
	/* An entry that is kept later keeps its unit. */
	l.v[1].disposition = DISPOSITION_CHANGED;
	ck_assert_uint_eq(limits_deleted(&l, plan.order).bytes, 30);
	ck_assert_str_eq(deleted(&l), "d");
	ck_assert_int_eq(l.v[2].disposition, DISPOSITION_UNIT);
	policy_plan_done(&plan);
	/* The unit of an entry that can never be deleted never can be, either. */
	p = (struct policy){ .max_size_bytes = 45, .max_delete = 1, .unit_by = text };
	l.v[1].disposition = DISPOSITION_PINNED;
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "");
	ck_assert_str_eq(
		words(&p, &plan, LIMIT_SIZE),
		"max-size is exceeded: 120 B, 45 B allowed, which the entries that can never be "
		"deleted exceed by themselves, so it deletes nothing: 1 entry is pinned, 2 are in "
		"a unit or chain with these");
	policy_plan_done(&plan);
	/* d starts a chain, which goes on with c and e; a and b are older. */
	p = (struct policy){ .max_size_bytes = 110, .max_delete = 1, .chain_start = starts };
	l.v[1].disposition = DISPOSITION_UNDECIDED;
	l.v[3].starts_chain = true;
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "a");
	policy_plan_done(&plan);
	p.max_size_bytes = 80;
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "acde");
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

/* If the clock was set, nothing goes by age, and limits go on in the order of the entries. */
START_TEST(limits_go_on_while_the_clock_is_unsure)
{
	struct policy p = free_150;
	struct policy_moment now = { .free_bytes = 100,
				     .size_bytes = 1000,
				     .is_clock_unsure = true,
				     .latest_nsec = NOW + 5000 * DAY_NSEC };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	p.max_age_usec = USEC_PER_SEC;
	p.min_age_usec = 2 * 86400 * USEC_PER_SEC;
	/* By the later time all are old; by the earlier one a is in the future, and b is young. */
	add(&l, "a", -1000, 20, DISPOSITION_UNDECIDED, NULL);
	add(&l, "b", 1, 20, DISPOSITION_UNDECIDED, NULL);
	add(&l, "c", 8, 30, DISPOSITION_UNDECIDED, NULL);
	add(&l, "d", 9, 50, DISPOSITION_UNDECIDED, NULL);
	plan = decide(&p, &l, now);
	ck_assert_str_eq(deleted(&l), "d");
	ck_assert_int_eq(l.v[0].disposition, DISPOSITION_MIN_AGE);
	ck_assert_int_eq(l.v[1].disposition, DISPOSITION_MIN_AGE);
	ck_assert_int_eq(l.v[2].disposition, DISPOSITION_CLOCK);
	ck_assert_int_eq(l.v[3].disposition, DISPOSITION_MIN_FREE);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

/* The clock of a camera is a few seconds ahead. */
START_TEST(seconds_ahead_are_now)
{
	const struct policy p = { .max_files = 1, .max_delete = 1 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add(&l, "a", 0, 1, DISPOSITION_UNDECIDED, NULL);
	add(&l, "b", 0, 1, DISPOSITION_UNDECIDED, NULL);
	l.v[0].time_nsec += AHEAD_NSEC;
	l.v[1].time_nsec += AHEAD_NSEC + 1;
	plan = decide(&p, &l, free_100);
	ck_assert_str_eq(deleted(&l), "a");
	ck_assert_int_eq(l.v[1].disposition, DISPOSITION_FUTURE);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

START_TEST(a_period_is_counted_across_runs)
{
	const struct policy_set some = { .n = 3, .bytes = 30, .referenced_bytes = 40 };
	struct policy_result r = { 0 };
	const uint64_t begin = 50 * PERIOD_USEC;

	result_spend(&r, &some, begin);
	result_spend(&r, &some, begin + PERIOD_USEC - 1);
	ck_assert_uint_eq(result_spent(&r, begin + PERIOD_USEC - 1).n, 6);
	ck_assert_uint_eq(result_spent(&r, begin + PERIOD_USEC - 1).referenced_bytes, 80);
	ck_assert_uint_eq(result_spent(&r, begin + PERIOD_USEC).n, 0);
	/* A clock that was set back prolongs the period, by one at most. */
	ck_assert_uint_eq(result_spent(&r, 1).n, 6);
	result_spend(&r, &some, 1);
	ck_assert_uint_eq(result_spent(&r, PERIOD_USEC).n, 9);
	ck_assert_uint_eq(result_spent(&r, PERIOD_USEC + 1).n, 0);
	/* A run in which limits deleted nothing begins no period. */
	result_spend(&r, &(struct policy_set){ 0 }, 3 * PERIOD_USEC);
	ck_assert_uint_eq(r.period_usec, 1);
}
END_TEST

/* ---- the table of files ---------------------------------------------------------------------- */

START_TEST(files_are_found_by_device_and_inode)
{
	struct links l = { 0 };
	const uint32_t n = 5000;

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < n; i++) {
			const struct link_file f = { .ino = i % 2500,
						     .dev = link_dev(8, i / 2500),
						     .nlink = 2 + round,
						     .bytes = i };
			struct link_file *file = links_file(&l, &f, SIZE_MAX);

			ck_assert_ptr_nonnull(file);
			ck_assert_uint_eq(file->names++, round);
			ck_assert_uint_eq(file->bytes, i);
			ck_assert_uint_eq(file->nlink, 2 + round);
		}
		ck_assert_uint_eq(l.n, n);
	}
	/* Known files are found although there is no room for others. */
	ck_assert_ptr_nonnull(links_file(&l, &(struct link_file){ .ino = 1 }, n + 1));
	ck_assert_ptr_null(links_file(&l, &(struct link_file){ .ino = 9999 }, n));
	links_clear(&l);
	ck_assert_uint_eq(l.n, 0);
	ck_assert_uint_eq(links_file(&l, &(struct link_file){ .ino = 1 }, 1)->names, 0);
	links_clear(&l);
	ck_assert_uint_eq(links_file(&l, &(struct link_file){ .ino = 1 }, 1)->names, 0);
	links_done(&l);
}
END_TEST

/* ---- made by chance -------------------------------------------------------------------------- */

#define ENTRIES_MOST 24U
#define FILES_MOST 10U

/* Entries with their names of files, as a table. */
struct world {
	struct policy_entry entries[ENTRIES_MOST];
	char names[ENTRIES_MOST][32];
	uint32_t counts[ENTRIES_MOST][FILES_MOST]; /* names that an entry has of a file */
	struct link_file files[FILES_MOST];
	size_t n, n_files;
};

/* xorshift: the same numbers on each machine. */
static uint64_t draw(uint64_t *state, uint64_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % below;
}

static void world_make(struct world *w, uint64_t *s)
{
	static const enum disposition held[] = { DISPOSITION_PINNED, DISPOSITION_IN_USE,
						 DISPOSITION_NO_TIME, DISPOSITION_IMMUTABLE };
	static const char *const units[] = { "", "", "u", "v", "w" };
	static const char *const odd[] = { "", "\n", "\xff", "é" };

	*w = (struct world){ .n = draw(s, ENTRIES_MOST + 1), .n_files = draw(s, FILES_MOST + 1) };
	for (size_t k = 0; k < w->n_files; k++)
		/* Some have names that no entry has; sparse files have no bytes. */
		w->files[k] = (struct link_file){ .ino = k + 1,
						  .dev = 1,
						  .bytes = draw(s, 5) ? draw(s, 200) : 0,
						  .nlink = draw(s, 3) == 0 };
	for (size_t i = 0; i < w->n; i++) {
		struct policy_entry *e = &w->entries[i];

		(void)snprintf(w->names[i], sizeof(w->names[i]), "%02zu%s", i, odd[draw(s, 4)]);
		*e = (struct policy_entry){
			.name = w->names[i],
			.series = draw(s, 3) ? "x" : "",
			.unit_name = units[draw(s, ELEMENTSOF(units))],
			.starts_chain = draw(s, 4) == 0,
			.time_nsec = NOW + (2 - (int64_t)draw(s, 40)) * DAY_NSEC,
			.bytes = draw(s, 4) ? draw(s, 100) : 0,
			.inodes = (uint32_t)draw(s, 3),
		};
		e->disposition = draw(s, 6) ? DISPOSITION_UNDECIDED
					    : (uint8_t)held[draw(s, ELEMENTSOF(held))];
		e->referenced_bytes = e->bytes;
		for (size_t k = 0; k < w->n_files; k++) {
			w->counts[i][k] = draw(s, 3) ? 0 : 1 + (uint32_t)draw(s, 2);
			w->files[k].nlink += w->counts[i][k];
			e->referenced_bytes += w->counts[i][k] ? w->files[k].bytes : 0;
		}
	}
	for (size_t k = 0; k < w->n_files; k++)
		w->files[k].nlink = MAX(w->files[k].nlink, 1U);
}

/* Makes the list in the order of the table, or turned round, without the entries that are gone. */
static struct policy_entries world_list(const struct world *w, const bool *gone, bool turned)
{
	struct policy_entries l = { 0 };

	for (size_t k = 0; k < w->n; k++) {
		size_t i = turned ? w->n - 1 - k : k;

		if (gone[i])
			continue;
		ck_assert_int_eq(entries_add(&l, &w->entries[i]), 0);
		for (size_t f = 0; f < w->n_files; f++) {
			struct link_file file = w->files[f];

			/* A deleted name is one less. */
			for (size_t j = 0; j < w->n; j++)
				file.nlink -= gone[j] ? w->counts[j][f] : 0;
			file.names = w->counts[i][f];
			if (file.names > 0)
				ck_assert_int_eq(entries_add_link(&l, &file), 0);
		}
	}
	return l;
}

/* Returns the bytes or inodes that deleting `set` frees, if those in `gone` are deleted already. */
static uint64_t freed(const struct world *w, const bool *gone, const bool *set, bool inodes)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < w->n; i++)
		if (set[i])
			sum += inodes ? w->entries[i].inodes : w->entries[i].bytes;
	for (size_t f = 0; f < w->n_files; f++) {
		uint32_t names = 0, of_set = 0;

		for (size_t i = 0; i < w->n; i++) {
			names += gone[i] || set[i] ? w->counts[i][f] : 0;
			of_set += set[i] ? w->counts[i][f] : 0;
		}
		if (of_set > 0 && names == w->files[f].nlink)
			sum += inodes ? 1 : w->files[f].bytes;
	}
	return sum;
}

static size_t world_index(const struct world *w, const struct policy_entry *e)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->names[i], e->name) == 0)
			return i;
	ck_abort_msg("%s is not there", e->name);
	return 0;
}

/* Fills the set of entries that go, and those that go by limits. */
static void goes(const struct world *w, const struct policy_entries *l, bool *set, bool *limited)
{
	memset(set, 0, ENTRIES_MOST);
	memset(limited, 0, ENTRIES_MOST);
	for (size_t i = 0; i < l->n; i++)
		if (entry_goes(&l->v[i])) {
			set[world_index(w, &l->v[i])] = true;
			limited[world_index(w, &l->v[i])] =
				l->v[i].disposition >= DISPOSITION_MAX_FILES;
		}
}

static void policy_make(struct policy *p, uint64_t *s)
{
	/* The world has its units and chains without patterns. */
	static char pattern[] = "(.)", *patterns[] = { pattern, NULL };

	*p = (struct policy){ .max_delete = (double)(1 + draw(s, 10)) / 10 };
	if (draw(s, 3) == 0)
		p->max_files = 1 + draw(s, 20);
	if (draw(s, 2) == 0)
		p->max_size_bytes = 1 + draw(s, 1500);
	if (draw(s, 2) == 0)
		p->min_free_below.bytes = p->min_free_until.bytes = 1000 + draw(s, 1500);
	if (draw(s, 3) == 0)
		p->min_inodes_below.bytes = p->min_inodes_until.bytes = 100 + draw(s, 20);
	if (draw(s, 4) == 0)
		p->keep.periods[KEEP_LAST] = draw(s, 12);
	if (draw(s, 4) == 0)
		p->max_age_usec = (1 + draw(s, 40)) * 86400 * USEC_PER_SEC;
	if (draw(s, 4) == 0)
		p->min_count = draw(s, 6);
	p->order = draw(s, 3) ? ORDER_OLDEST : ORDER_LARGEST;
	p->unit_by = draw(s, 2) ? pattern : NULL;
	p->chain_start = draw(s, 4) ? NULL : patterns;
}

/* Returns by how much the limits are missed, all together, if the entries of `set` are deleted. */
static uint64_t missed(const struct world *w, const struct policy *p, const bool *gone,
		       const bool *set, uint64_t free)
{
	bool all[ENTRIES_MOST] = { false };
	uint64_t n = 0, sum = 0, bytes = freed(w, gone, set, false), size;

	for (size_t i = 0; i < w->n; i++) {
		all[i] = !gone[i];
		n += !gone[i] && !set[i];
	}
	size = freed(w, gone, all, false) - bytes;
	if (p->max_files > 0 && n > p->max_files)
		sum += n - p->max_files;
	if (p->max_size_bytes > 0 && size > p->max_size_bytes)
		sum += size - p->max_size_bytes;
	if (free + bytes < p->min_free_below.bytes)
		sum += p->min_free_below.bytes - free - bytes;
	if (100 + freed(w, gone, set, true) < p->min_inodes_below.bytes)
		sum += p->min_inodes_below.bytes - 100 - freed(w, gone, set, true);
	return sum;
}

/* Nothing that was kept goes, and the limits are missed as they are said to be. */
static void check_plan(const struct world *w, const struct policy *p, const bool *gone,
		       const struct policy_entries *l, const struct policy_plan *plan,
		       uint64_t free)
{
	bool set[ENTRIES_MOST], limited[ENTRIES_MOST];

	goes(w, l, set, limited);
	ck_assert_uint_eq(plan->deleted.bytes, freed(w, gone, set, false));
	ck_assert_int_eq(limits_are_unmet(plan), missed(w, p, gone, set, free) > 0);
	for (size_t i = 0; i < w->n; i++) {
		ck_assert(!set[i] || !gone[i]);
		ck_assert(!set[i] || w->entries[i].disposition == DISPOSITION_UNDECIDED);
		ck_assert(!set[i] || w->entries[i].time_nsec <= NOW + AHEAD_NSEC);
	}
}

/* Units and chains go as wholes. */
static void check_units(const struct policy_entries *l)
{
	for (size_t i = 0; i < l->n; i++)
		for (size_t k = 0; k < i; k++)
			if (l->v[i].unit == l->v[k].unit)
				ck_assert_int_eq(entry_goes(&l->v[i]), entry_goes(&l->v[k]));
}

/* Finds the newest entry of a unit, and whether it has files with names elsewhere. */
static const struct policy_entry *unit_newest(const struct policy_entries *l, uint32_t unit,
					      bool *ret_links)
{
	const struct policy_entry *newest = NULL;

	*ret_links = false;
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].unit != unit)
			continue;
		if (!newest || entry_compare(newest, &l->v[i]) < 0)
			newest = &l->v[i];
		*ret_links = *ret_links || entry_refs(l, i) > 0;
	}
	return newest;
}

static size_t unit_first(const struct policy_entries *l, uint32_t unit)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].unit == unit)
			return i;
	return l->n;
}

/* Adds a unit to a set, or takes it out. */
static void unit_set(const struct world *w, const struct policy_entries *l, uint32_t unit,
		     bool *set, bool value)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].unit == unit)
			set[world_index(w, &l->v[i])] = value;
}

/* Without max-delete: the last unit that limits take is needed, and so is each with files that have
 * names elsewhere. */
static void check_need(const struct world *w, const struct policy *p, const bool *gone,
		       const struct policy_entries *l, uint64_t free)
{
	bool set[ENTRIES_MOST], limited[ENTRIES_MOST];
	const struct policy_entry *last = NULL;
	uint64_t miss;

	goes(w, l, set, limited);
	miss = missed(w, p, gone, set, free);
	for (size_t i = 0; i < l->n; i++) {
		bool links;
		const struct policy_entry *newest = unit_newest(l, l->v[i].unit, &links);

		if (!limited[world_index(w, &l->v[i])])
			continue;
		if (p->order == ORDER_OLDEST && (!last || entry_compare(last, newest) < 0))
			last = newest;
		unit_set(w, l, l->v[i].unit, set, false);
		ck_assert(!links || missed(w, p, gone, set, free) > miss);
		unit_set(w, l, l->v[i].unit, set, true);
	}
	if (last) {
		unit_set(w, l, last->unit, set, false);
		ck_assert_uint_gt(missed(w, p, gone, set, free), miss);
	}
}

/* Runs the policy until it deletes nothing more in the period: max-delete holds for all runs
 * together. */
static void check_period(const struct world *w, const struct policy *p, uint64_t free,
			 uint64_t *n_runs)
{
	struct policy_set spent = { 0 };
	bool gone[ENTRIES_MOST] = { false }, set[ENTRIES_MOST], limited[ENTRIES_MOST];
	bool all[ENTRIES_MOST], by_limits[ENTRIES_MOST] = { false };
	uint64_t ages = 0, units = 0, n;

	memset(all, true, sizeof(all));
	for (;;) {
		struct policy_entries l = world_list(w, gone, false);
		const struct policy_moment now = { .now_nsec = NOW,
						   .free_bytes = free,
						   .size_bytes = 100000,
						   .free_inodes = 100,
						   .inodes = 100000,
						   .spent = spent };
		struct policy_plan plan;

		ck_assert_int_eq(rules_decide(&plan, p, &l, now), 0);
		goes(w, &l, set, limited);
		free += freed(w, gone, set, false);
		spent.n += plan.limited.n;
		spent.bytes += plan.limited.bytes;
		spent.referenced_bytes += plan.limited.referenced_bytes;
		for (size_t i = 0; i < w->n; i++) {
			gone[i] = gone[i] || set[i];
			by_limits[i] = by_limits[i] || limited[i];
			ages += set[i] && !limited[i];
		}
		for (size_t i = 0; i < l.n; i++)
			units += limited[world_index(w, &l.v[i])] &&
				 unit_first(&l, l.v[i].unit) == i;
		n = plan.deleted.n;
		policy_plan_done(&plan);
		entries_done(&l);
		if (n == 0)
			break;
		(*n_runs)++;
	}
	/* The first unit goes even if it is more than max-delete. */
	if (units > 1 && ages == 0)
		ck_assert_double_le((double)spent.n / (double)w->n, p->max_delete + 1e-9);
	if (units > 1 && ages == 0 && freed(w, (bool[ENTRIES_MOST]){ false }, all, false) > 0)
		ck_assert_double_le(
			(double)freed(w, (bool[ENTRIES_MOST]){ false }, by_limits, false) /
				(double)freed(w, (bool[ENTRIES_MOST]){ false }, all, false),
			p->max_delete + 1e-9);
}

START_TEST(any_input)
{
	uint64_t s = 88172645463325252ULL, n_runs = 0, n_limited = 0;
	const bool none[ENTRIES_MOST] = { false };

	for (unsigned round = 0; round < 5000; round++) {
		struct policy_moment now = { .now_nsec = NOW,
					     .free_bytes = 1000,
					     .size_bytes = 100000,
					     .free_inodes = 100,
					     .inodes = 100000 };
		struct policy_entries l, turned;
		struct policy_plan plan, again;
		struct policy p;
		struct world w;

		world_make(&w, &s);
		policy_make(&p, &s);
		l = world_list(&w, none, false);
		turned = world_list(&w, none, true);
		ck_assert_int_eq(rules_decide(&plan, &p, &l, now), 0);
		ck_assert_int_eq(rules_decide(&again, &p, &turned, now), 0);
		check_plan(&w, &p, none, &l, &plan, now.free_bytes);
		check_units(&l);
		for (size_t i = 0; i < l.n; i++) {
			ck_assert_int_eq(l.v[i].disposition, turned.v[l.n - 1 - i].disposition);
			ck_assert_int_eq(l.v[i].stays, turned.v[l.n - 1 - i].stays);
		}
		ck_assert_uint_eq(plan.deleted.bytes, again.deleted.bytes);
		ck_assert_double_eq_tol(plan.share, again.share, 1e-9);
		policy_plan_done(&plan);
		policy_plan_done(&again);
		entries_done(&l);
		entries_done(&turned);
		now.unbounded = true;
		l = world_list(&w, none, false);
		ck_assert_int_eq(rules_decide(&plan, &p, &l, now), 0);
		n_limited += plan.limited.n;
		check_need(&w, &p, none, &l, now.free_bytes);
		policy_plan_done(&plan);
		entries_done(&l);
		check_period(&w, &p, now.free_bytes, &n_runs);
	}
	ck_assert_uint_gt(n_runs, 2000);
	ck_assert_uint_gt(n_limited, 5000);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { a_file_is_freed_with_its_last_name,
				 an_entry_that_helps_nothing_is_spared,
				 the_largest_is_the_group_of_names,
				 inodes_are_freed_with_the_last_name,
				 a_limit_that_is_out_of_reach_deletes_nothing,
				 a_limit_that_is_not_met_now_goes_as_far_as_it_may,
				 max_delete_is_of_all_three,
				 each_series_has_a_size,
				 limits_take_whole_units,
				 limits_go_on_while_the_clock_is_unsure,
				 seconds_ahead_are_now,
				 a_period_is_counted_across_runs,
				 files_are_found_by_device_and_inode,
				 any_input };

	return run_case("limits", tests, ELEMENTSOF(tests));
}
