/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "policy/pattern.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/globs.h"
#include "policy/selection.h"
#include "support.h"
#include "base/macros.h"

/* ---- the same as the C library ----------------------------------------------------------------
 */

static const char *shown(const struct pattern_group *g, size_t n, char buf[256])
{
	size_t at = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < n; i++)
		at += (size_t)snprintf(buf + at, 256 - at, "(%d,%d)", g[i].begin, g[i].end);
	return buf;
}

/* Compares for one expression and some texts. Returns whether it is one. */
static bool compare(const char *expression, const char *const *texts, size_t n_texts)
{
	const char *why = NULL;
	struct pattern *p = NULL;
	regex_t re;
	int theirs = regcomp(&re, expression, REG_EXTENDED);
	int ours = pattern_new(&p, expression, &why);

	/* On many of these regexec(3) never ends. */
	if (ours != 0 && strstr(why, "can be empty")) {
		regfree(&re);
		return false;
	}
	ck_assert_msg((theirs == 0) == (ours == 0), "%s: regcomp %d, here %d", expression, theirs,
		      ours);
	if (theirs != 0)
		return false;
	ck_assert_uint_eq(pattern_groups(p), re.re_nsub);
	for (size_t i = 0; i < n_texts; i++) {
		struct pattern_group a[PATTERN_GROUPS], b[PATTERN_GROUPS];
		regmatch_t m[PATTERN_GROUPS + 1];
		size_t n = MIN(re.re_nsub, (size_t)PATTERN_GROUPS);
		bool matches = regexec(&re, texts[i], PATTERN_GROUPS + 1, m, 0) == 0;
		char x[256], y[256];

		ck_assert_msg(pattern_match(p, texts[i], a) == matches, "%s on \"%s\": regexec %d",
			      expression, texts[i], matches);
		for (size_t k = 0; matches && k < n; k++)
			b[k] = (struct pattern_group){ m[k + 1].rm_so, m[k + 1].rm_eo };
		ck_assert_msg(!matches || memcmp(a, b, n * sizeof(*a)) == 0,
			      "%s on \"%s\": regexec %s, here %s", expression, texts[i],
			      shown(b, n, x), shown(a, n, y));
	}
	regfree(&re);
	pattern_free(p);
	return true;
}

static const char *const names[] = {
	"",
	"a",
	"b",
	"ab",
	"aab",
	"abc",
	"db-2024-01-31.tar.gz",
	"host1_db-20240131T235959.gz",
	"a-b-c",
	"x/y/z.log",
	"a.b",
	"ab ab",
	"{3}",
	"a{",
	")",
	"]",
	"-",
	"a\nb",
	"^$",
	"a_b",
	"full-backup-20240131-101112",
	"\\",
	"web01.example.org/2024/access.log",
	"aaaaaaaa",
	"A1_",
	"café-1",
	"Ãé",
	"жук_2",
	"🎥",
};

static const char *const expressions[] = {
	"^([a-z]+)-",
	"^(.+)-[0-9]{8}-[0-9]{6}$",
	"^([^/]+)/",
	"([a-z]+)([0-9]+)?",
	"(a|ab)(c|bcd)?",
	"(a*)(ab)*",
	"((a)|b)*",
	"((a?)b)*",
	"(a|)",
	"(|a)",
	"()",
	"(a*)?",
	"((a*)?b)*",
	"(a**)",
	"(a{2,3})",
	"(a{,2})",
	"(a{2,})",
	"(ab?){2}",
	"([]a])",
	"([^]a])",
	"([a-])",
	"([-a])",
	"([[:alpha:]]+)",
	"([^[:space:]]*)",
	"([[.-.]a])",
	"([[=a=]b])",
	"(\\w+)\\W",
	"\\b(b)",
	"(b)\\>",
	"\\<(a)",
	"(a)\\B",
	"(\\s)",
	"(\\S+)$",
	"(a)|b",
	"(a)|(b)",
	"^(a)|(b)$",
	"(a\\.b)",
	"(\\{)",
	"(a))",
	"(})",
	"(^a)",
	"(a$)",
	"a^(b)",
	"(.)\\'",
	"\\`(.)",
	"(x)?(y)?(z)?",
	"^(.)",
	"([é]+)",
	"([^é])",
	"(é|ж)\\w",
	"(é{1,2})",
	"([[:alpha:]]+)-",
	"(a)(b)(c)(d)?(e)?(f)?(g)?(h)?(i)?",
	/* None, though each begins a group. */
	"(",
	"(a",
	"(*a)",
	"(a|*b)",
	"(^*)",
	"([",
	"([a",
	"([b-a])",
	"([[:foo:]])",
	"([[:alpha:]-z])",
	"([[=a=]-z])",
	"([a-[=z=]])",
	"([a-c-e])",
	"(a){",
	"(a){1",
	"(a){2,1}",
	"(a){x}",
	"(a){99999}",
	"(a)\\",
	"({1})",
	"([[.aa.]])",
	"(+)",
	"(?)",
	"(?a)",
};

/* In the locale C.UTF-8. */
START_TEST(expressions_mean_what_they_mean_to_the_library)
{
	locale_t utf8 = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0), before = uselocale(utf8);

	ck_assert(utf8);
	for (size_t i = 0; i < ELEMENTSOF(expressions); i++)
		(void)compare(expressions[i], names, ELEMENTSOF(names));
	(void)uselocale(before);
	freelocale(utf8);
}
END_TEST

START_TEST(ranges_and_bytes_beyond_ascii)
{
	static const struct {
		const char *expression, *text;
		int begin, end;
	} cases[] = {
		{ "^(.)", "\xff\xc3\xa9", 0, 1 },  { "^..(.)", "\xff\xc3\xa9x", 3, 4 },
		{ "([^a]+)$", "a\xff\xfe", 1, 3 }, { "([é])", "\xc3", -1, -1 },
		{ "([а-я]+)", "1жz", 1, 3 },       { "(é)", "\xe9\xc3\xa9", 1, 3 },
		{ "(\\W)", "a\xff", 1, 2 },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct pattern_group g[PATTERN_GROUPS];
		struct pattern *p = NULL;
		const char *why;

		ck_assert_int_eq(pattern_new(&p, cases[i].expression, &why), 0);
		ck_assert_int_eq(pattern_match(p, cases[i].text, g), cases[i].begin >= 0);
		if (cases[i].begin >= 0)
			ck_assert_msg(g[0].begin == cases[i].begin && g[0].end == cases[i].end,
				      "%zu: %d %d", i, g[0].begin, g[0].end);
		pattern_free(p);
	}
}
END_TEST

static void put_atoms(char *buf)
{
	static const char *const atoms[] = { "a",     "b",           "-", ".",   "[ab]", "[^a]",
					     "[a-c]", "[[:digit:]]", "1", "\\.", "x",    "\\w" };
	static const char *const often[] = { "",  "",    "",      "*",     "+",
					     "?", "{2}", "{0,2}", "{1,3}", "{2,}" };

	for (int i = 1 + rand() % 3; i > 0; i--) {
		strcat(buf, atoms[(size_t)rand() % ELEMENTSOF(atoms)]);
		strcat(buf, often[(size_t)rand() % ELEMENTSOF(often)]);
	}
}

/* Such as are written for names: groups one behind the other, some of them optional, with others in
 * them, and with branches. */
static void put_group(char *buf, bool inner)
{
	strcat(buf, "(");
	put_atoms(buf);
	if (inner && rand() % 4 == 0)
		put_group(buf, false);
	if (rand() % 4 == 0) {
		strcat(buf, "|");
		put_atoms(buf);
	}
	strcat(buf, rand() % 4 == 0 ? ")?" : ")");
}

START_TEST(random_expressions_mean_the_same)
{
	size_t n = 0;

	srand(1);
	for (int i = 0; i < 3000; i++) {
		static char texts[8][16];
		const char *t[8];
		char buf[400] = "";

		strcat(buf, rand() % 3 > 0 ? "^" : "");
		for (int k = 1 + rand() % 3; k > 0; k--) {
			put_group(buf, true);
			if (rand() % 2)
				put_atoms(buf);
		}
		strcat(buf, rand() % 3 == 0 ? "$" : "");
		for (size_t k = 0; k < ELEMENTSOF(texts); k++) {
			size_t len = (size_t)rand() % 12;

			for (size_t j = 0; j < len; j++)
				texts[k][j] = "aabbc-1x."[rand() % 9];
			texts[k][len] = '\0';
			t[k] = texts[k];
		}
		n += compare(buf, t, ELEMENTSOF(t));
	}
	ck_assert_uint_eq(n, 3000);
}
END_TEST

/* ---- hostile ones -----------------------------------------------------------------------------
 */

static char *times(const char *before, const char *what, const char *after, size_t n)
{
	size_t len = strlen(before) + n * (strlen(what) + strlen(after)) + 2;
	char *s = calloc(1, len), *at = s;

	at = stpcpy(at, before);
	for (size_t i = 0; i < n; i++)
		at = stpcpy(at, what);
	if (*after)
		*at++ = 'a';
	for (size_t i = 0; i < n; i++)
		at = stpcpy(at, after);
	return s;
}

START_TEST(test_attack_11_expressions_that_are_too_much)
{
	const struct {
		const char *before, *what, *after;
		size_t n;
	} rows[] = {
		{ "", "(", ")", 60000 },  { "", "(", ")", PATTERN_DEPTH + 1 },
		{ "", "(", ")+", 20 },    { "", "(", "){1,100}", 3 },
		{ "(a)", "a", "", 2000 }, { "(a)", "(", "", 60000 },
		{ "(a", "*)(", "", 3 },   { "(a{32767})", "", "", 0 },
		{ "(a)", "", "{2}", 18 },
	};
	static const char *const empty[] = {
		"(a?)*",   "((a?)b?)*", "(a|)*", "(|a)+",      "(a*)*",
		"(a*){2}", "(()){3}",   "(^)*",  "((a)?){,2}", "(\\b)+"
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		_cleanup_free_ char *s =
			times(rows[i].before, rows[i].what, rows[i].after, rows[i].n);
		const char *why = series_check(s);

		ck_assert_msg(why != NULL, "%zu", i);
	}
	for (size_t i = 0; i < ELEMENTSOF(empty); i++)
		ck_assert_ptr_nonnull(strstr(series_check(empty[i]), "can be empty"));
	ck_assert_ptr_null(series_check("([0-9]********************)")); /* 20 */
	ck_assert_ptr_nonnull(series_check("([0-9]*********************)"));
	ck_assert_ptr_nonnull(series_check("^(.)\\1"));
	ck_assert_ptr_nonnull(strstr(series_check("(a)\\1"), "back-references"));
	ck_assert_ptr_nonnull(strstr(series_check("(a{1,32767})"), "2000 steps"));
	ck_assert_ptr_nonnull(strstr(series_check("a"), "one to nine groups"));
	ck_assert_ptr_nonnull(series_check("(1)(2)(3)(4)(5)(6)(7)(8)(9)(10)"));
}
END_TEST

/* Steps, not seconds: what is promised is a bound for each byte and each step of the program. */
START_TEST(test_attack_11_names_take_bounded_time)
{
	static const char *const hostile[] = {
		"^(a+)+$",
		"((a+)+)+b",
		"(a**)b",
		"(a|a)*b",
		"(a|aa)+$",
		"((((a+)+)+)+)?b",
		"(a{1,30}){1,30}b",
		"(a|b|ab)*c",
		"([ab]*a[ab]{200}c)",
		"(.*)(.*)(.*)(.*)(.*)x",
		"(a?)(a?)(a?)(a?)a{200}b",
		"(.*a){20}b",
		"(x+x+)+y",
		"^(([a-z])+.)+[A-Z]([a-z])+$",
		"(a|b)*a(a|b){300}c",
	};
	_cleanup_free_ char *all = times("", "a", "", PATH_MAX - 1);
	_cleanup_free_ char *mixed = times("", "ab", "", PATH_MAX / 2 - 1);
	const char *const texts[] = { all, mixed };

	for (size_t i = 0; i < ELEMENTSOF(hostile); i++)
		for (size_t k = 0; k < ELEMENTSOF(texts); k++) {
			struct pattern_group g[PATTERN_GROUPS];
			struct pattern *p = NULL;
			const char *why;

			ck_assert_int_eq(pattern_new(&p, hostile[i], &why), 0);
			ck_assert_int_ge(pattern_match(p, texts[k], g), 0);
			ck_assert_msg(pattern_work(p) <=
					      30ULL * PATTERN_STEPS * (strlen(texts[k]) + 1),
				      "%s: %llu", hostile[i], pattern_work(p));
			pattern_free(p);
		}
}
END_TEST

START_TEST(too_long_a_name_belongs_to_no_series)
{
	_cleanup_free_ char *text = times("", "a", "", PATH_MAX + 1);
	const struct policy p = { .group_by = (char[]){ "^(a)" } };
	struct selection *s = NULL;
	char buf[64];

	ck_assert_int_eq(selection_new(&s, &p), 0);
	ck_assert_int_lt(selection_series(s, text, buf, sizeof(buf)), 0);
	ck_assert_int_eq(selection_series(s, "ab", buf, sizeof(buf)), 1);
	ck_assert_str_eq(buf, "a");
	selection_free(s);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { expressions_mean_what_they_mean_to_the_library,
				 ranges_and_bytes_beyond_ascii,
				 random_expressions_mean_the_same,
				 test_attack_11_expressions_that_are_too_much,
				 test_attack_11_names_take_bounded_time,
				 too_long_a_name_belongs_to_no_series };

	return run_case("pattern", tests, ELEMENTSOF(tests));
}
