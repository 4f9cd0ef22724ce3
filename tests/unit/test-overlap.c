/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keep wins between policies: which names of one are held by names of the other. */
#include <string.h>

#include "policy/overlap.h"
#include "support.h"
#include "base/macros.h"

static void add(struct policy_entries *l, const char *name, bool kept)
{
	const struct policy_entry e = { .name = name, .series = "", .kept_by = kept };

	ck_assert_int_eq(entries_add(l, &e), 0);
}

/* Adds the words of a text. */
static void add_all(struct policy_entries *l, const char *words, bool kept)
{
	char *copy = strdup(words), *rest = copy, *word;

	while ((word = strsep(&rest, " ")))
		if (*word)
			add(l, word, kept);
	free(copy);
}

static const struct {
	const char *base, *entries; /* of the one */
	const char *other, *kept;   /* of the other; what it does not keep is "gone" */
	const char *held;
} cases[] = {
	{ "/b", "a b gone", "/b", "b c", "b" },
	{ "/b", "a b", "/b", "", "" },
	/* Names that sort between a directory and what is in it. */
	{ "/b", "a", "/b", "a-x a.x a+", "" },
	{ "/b", "a", "/b", "a-x a/x a.x", "a" },
	{ "/b", "a/x a-x", "/b", "a", "a/x" },
	{ "/b", "a/b/c a/b ab", "/b", "a/b", "a/b/c a/b" },
	{ "/b", "a/b/c", "/b", "a/b/cc a/b/c.d a/bb", "" },
	/* The other is further down. */
	{ "/b", "c/x c/y cc/x c", "/b/c", "x", "c/x c" },
	{ "/b", "c/d/x c/x c d", "/b/c/d", "x", "c/d/x c" },
	{ "/b", "c", "/b/c/d", "", "" },
	/* Or further up. */
	{ "/b/c", "x y", "/b", "c/x cc/y y", "x" },
	{ "/b/c", "x y", "/b", "c", "x y" },
	{ "/b/c/d", "x y", "/b", "c", "x y" },
	{ "/", "b/x b/y", "/b", "x", "b/x" },
};

START_TEST(what_the_other_keeps_is_held)
{
	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct policy_entries l = { 0 }, o = { 0 };
		char held[64] = "";

		add_all(&l, cases[i].entries, false);
		add_all(&o, cases[i].kept, true);
		add_all(&o, "gone c/gone", false);
		ck_assert_int_eq(overlap_hold(&l, cases[i].base, &o, cases[i].other), 0);
		for (size_t k = 0; k < l.n; k++)
			if (l.v[k].disposition == DISPOSITION_OTHER_KEEPS) {
				strcat(held, *held ? " " : "");
				strcat(held, l.v[k].name);
			} else {
				ck_assert_int_eq(l.v[k].disposition, DISPOSITION_UNDECIDED);
			}
		ck_assert_msg(strcmp(held, cases[i].held) == 0, "case %zu: %s", i, held);
		entries_done(&l);
		entries_done(&o);
	}
}
END_TEST

START_TEST(what_is_decided_stays_so)
{
	struct policy_entries l = { 0 }, o = { 0 };

	add(&l, "a", false);
	l.v[0].disposition = DISPOSITION_PROTECTED;
	add(&o, "a", true);
	ck_assert_int_eq(overlap_hold(&l, "/b", &o, "/b"), 0);
	ck_assert_int_eq(l.v[0].disposition, DISPOSITION_PROTECTED);
	entries_done(&l);
	entries_done(&o);
}
END_TEST

static bool meet(const char *path, enum policy_kind kind, const char *match, const char *other,
		 enum policy_kind other_kind, const char *other_match)
{
	char *a[] = { (char *)match, NULL }, *b[] = { (char *)other_match, NULL };
	const struct policy p = { .path = (char *)path, .match = a, .kind = kind },
			    q = { .path = (char *)other, .match = b, .kind = other_kind };

	ck_assert_int_eq(policies_meet(&p, &q), policies_meet(&q, &p));
	return policies_meet(&p, &q);
}

START_TEST(policies_that_meet)
{
	ck_assert(meet("/b", POLICY_FILES, "*.a", "/b", POLICY_FILES, "x*"));
	ck_assert(!meet("/b", POLICY_FILES, "*.a", "/b", POLICY_FILES, "*.b"));
	ck_assert(!meet("/b", POLICY_FILES, "a*", "/b", POLICY_FILES, "b*"));
	ck_assert(!meet("/b", POLICY_FILES, "*", "/bb", POLICY_FILES, "*"));
	/* A tree has in it what another is about. */
	ck_assert(meet("/b", POLICY_TREES, "old", "/b", POLICY_FILES, "old/x.gz"));
	ck_assert(meet("/b", POLICY_TREES, "old", "/b", POLICY_TREES, "old/x"));
	ck_assert(meet("/b", POLICY_TREES, "*", "/b/c/d", POLICY_FILES, "x"));
	ck_assert(!meet("/b", POLICY_TREES, "old", "/b", POLICY_FILES, "new/x"));
}
END_TEST

int main(void)
{
	const TTest *tests[] = { what_the_other_keeps_is_held, what_is_decided_stays_so,
				 policies_that_meet };

	return run_case("overlap", tests, ELEMENTSOF(tests));
}
