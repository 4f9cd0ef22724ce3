/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fnmatch.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "policy/globs.h"
#include "support.h"
#include "base/macros.h"

/* Walks a path through one pattern. 'm' matches, 'd' something beneath still may; else a space. */
static void walk(const char *pattern, const char *path, bool exclude, char ret[3])
{
	char *patterns[] = { (char *)pattern, NULL };
	_cleanup_free_ char *copy = strdup(path);
	char *rest = copy, *name;
	struct globs *g = NULL;
	uint64_t at, next;
	bool matches = false, deeper = true;

	ck_assert_msg(glob_check(pattern) == NULL, "%s", pattern);
	ck_assert_int_eq(globs_new(&g, patterns, exclude, false), 0);
	ck_assert_uint_eq(globs_words(g), 1);
	globs_begin(g, &at);
	while ((name = strsep(&rest, "/"))) {
		matches = globs_step(g, &at, name, &next, &deeper);
		at = next;
	}
	ret[0] = matches ? 'm' : ' ';
	ret[1] = deeper ? 'd' : ' ';
	ret[2] = '\0';
	globs_free(g);
}

static const struct row {
	const char *pattern, *path, *match, *exclude;
} rows[] = {
	{ "*.gz", "a.gz", "m ", "m " },
	{ "*.gz", "a.bz", "  ", "  " },
	{ "*.gz", "d/a.gz", "  ", "  " },
	{ "*.gz", ".a.gz", "  ", "m " },
	{ ".[!.]*", ".a", "m ", "m " },
	{ "*", "a", "m ", "m " },
	{ "*", ".a", "  ", "m " },
	{ "d/*.gz", "d", " d", " d" },
	{ "d/*.gz", "e", "  ", "  " },
	{ "d/*.gz", "d/a.gz", "m ", "m " },
	{ "d/*.gz", "d/e/a.gz", "  ", "  " },
	{ "**/*.log", "a.log", "md", "md" },
	{ "**/*.log", "x/y/z/a.log", "md", "md" },
	{ "**/*.log", "x/y", " d", " d" },
	{ "**/*.log", ".x", "  ", " d" },
	{ "**/*.log", ".x/a.log", "  ", "md" },
	{ "a/**/z", "a", " d", " d" },
	{ "a/**/z", "a/z", "md", "md" },
	{ "a/**/z", "a/b/c/z", "md", "md" },
	{ "a/**/z", "b", "  ", "  " },
	{ "a/**", "a", " d", " d" },
	{ "a/**", "a/b", "md", "md" },
	{ "a/**", "a/b/c", "md", "md" },
	{ "**", "a", "md", "md" },
	{ "**", "a/b/c", "md", "md" },
	{ "**/**/b", "b", "md", "md" },
	{ "**/a/**/b", "x/a/a/y/b", "md", "md" },
	{ "a\\*", "a*", "m ", "m " },
	{ "a\\*", "ab", "  ", "  " },
	{ "[a-c]?", "bz", "m ", "m " },
	/* Characters, not bytes, of UTF-8; a byte that is no UTF-8 is a character of its own. */
	{ "caf?.log", "café.log", "m ", "m " },
	{ "caf??.log", "café.log", "  ", "  " },
	{ "[äöü]*", "ä1.log", "m ", "m " },
	{ "[é]*", "Ã", "  ", "  " },
	{ "[é]*", "\xc3", "  ", "  " },
	{ "[!é]", "\xc3", "m ", "m " },
	{ "[а-я]", "ж", "m ", "m " },
	{ "[а-я]", "z", "  ", "  " },
	{ "[[:alpha:]]", "é", "m ", "m " },
	{ "[[:digit:]]", "é", "  ", "  " },
	{ "?", "🎥", "m ", "m " },
	{ "*🎥*", "cam🎥1", "m ", "m " },
	{ "bad?.log", "bad\xff.log", "m ", "m " },
	{ "bad?é.log", "bad\xffé.log", "m ", "m " },
	{ "?", "\xe2\x82", "  ", "  " },
	{ "??", "\xe2\x82", "m ", "m " },
	{ "??", "\xc0\xaf", "m ", "m " },
	{ "[]-a]", "]", "m ", "m " },
	{ "[\\]a]", "]", "m ", "m " },
	{ "[a-]", "-", "m ", "m " },
	{ "*a*b*c", "xxaxxbxxbxc", "m ", "m " },
	{ "*a*b*c", "xxaxxbxxbxd", "  ", "  " },
};

START_TEST(paths_match)
{
	char got[3];

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		const struct row *t = &rows[i];

		walk(t->pattern, t->path, false, got);
		ck_assert_msg(strcmp(got, t->match) == 0, "%s, %s: '%s'", t->pattern, t->path, got);
		walk(t->pattern, t->path, true, got);
		ck_assert_msg(strcmp(got, t->exclude) == 0, "excluding %s, %s: '%s'", t->pattern,
			      t->path, got);
	}
}
END_TEST

START_TEST(patterns_may_ignore_the_case)
{
	static const struct {
		const char *pattern, *name;
		bool matches;
	} cases[] = {
		{ "*.jpg", "A.JPG", true },
		{ "*.JPG", "a.jpg", true },
		{ "é*", "École", true },
		{ "[a-z]", "Q", true },
		{ "[!a-z]", "Q", false },
		{ "[ä]", "Ä", true },
		{ "ж", "Ж", true },
		{ "[[:upper:]]", "q", true },
		{ "straße", "STRASSE", false },
		{ "a", "b", false },
		{ "\xc7\x84", "\xc7\x85", true }, /* one letter has three forms */
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		char *patterns[] = { (char *)cases[i].pattern, NULL };
		struct globs *g = NULL;

		ck_assert_int_eq(globs_new(&g, patterns, false, /* ignore_case= */ true), 0);
		ck_assert_msg(globs_match(g, cases[i].name) == cases[i].matches, "%s, %s",
			      cases[i].pattern, cases[i].name);
		globs_free(g);
	}
}
END_TEST

/* Draws a text of some of the parts, and the same with a letter of ASCII for each other one. */
static void texts_draw(char *text, char *ascii, unsigned *seed, const char *const *parts,
		       unsigned n)
{
	text[0] = ascii[0] = '\0';
	for (unsigned k = 1 + (unsigned)rand_r(seed) % 6; k > 0; k--) {
		unsigned i = (unsigned)rand_r(seed) % n;

		strcat(text, parts[2 * i]);
		strcat(ascii, parts[2 * i + 1]);
	}
}

/* As characters beyond ASCII are characters like others, a pattern matches a name if it does when
 * each of them is replaced by a letter; whatever the locale. */
START_TEST(characters_are_letters_like_others)
{
	static const char *const names[] = { "a", "a", "b",    "b", "é", "E", "Ã",    "A",
					     ".", ".", "\xff", "F", "🎥", "K", "\xc3", "C" };
	static const char *const parts[] = { "a",    "a",    "é",    "E",    "*",     "*",
					     "?",    "?",    "[!b]", "[!b]", "[!é]",  "[!E]",
					     "[é🎥]", "[EK]", ".",    ".",    "[a-b]", "[a-b]",
					     "\\?",  "\\?",  "🎥",    "K" };
	static const char *const locales[] = { "C", "C.UTF-8" };
	unsigned seed = 5, n = 0;

	for (unsigned i = 0; i < 20000; i++) {
		char pattern[64], plain[64], name[64], letters[64], *patterns[] = { pattern, NULL };
		struct globs *g = NULL;
		int theirs;

		ck_assert_ptr_nonnull(setlocale(LC_ALL, locales[i % 2]));
		texts_draw(pattern, plain, &seed, parts, ELEMENTSOF(parts) / 2);
		texts_draw(name, letters, &seed, names, ELEMENTSOF(names) / 2);
		if (glob_check(pattern))
			continue;
		ck_assert_int_eq(globs_new(&g, patterns, false, false), 0);
		theirs = fnmatch(plain, letters, FNM_PERIOD);
		ck_assert_msg(globs_match(g, name) == (theirs == 0), "%s, %s: fnmatch %d", pattern,
			      name, theirs);
		n += theirs == 0;
		globs_free(g);
	}
	ck_assert_uint_gt(n, 500);
	(void)setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(any_of_several_patterns)
{
	char *patterns[] = { (char *)"*.gz", (char *)"d/*", NULL };
	struct globs *g = NULL;
	uint64_t at[2], next[2];
	bool deeper;

	ck_assert_int_eq(globs_new(&g, patterns, false, false), 0);
	ck_assert_uint_eq(globs_words(g), 2);
	globs_begin(g, at);
	ck_assert(globs_step(g, at, "a.gz", next, &deeper) && !deeper);
	ck_assert(!globs_step(g, at, "d", next, &deeper) && deeper);
	ck_assert(globs_step(g, next, "x", at, &deeper) && !deeper);
	g = globs_free(g);
	ck_assert_int_eq(globs_new(&g, NULL, true, false), 0);
	ck_assert(!globs_step(g, at, "a", next, &deeper) && !deeper);
	globs_free(g);
}
END_TEST

START_TEST(test_25_bad_patterns)
{
	static const char *const bad[] = { "",      "/",     "/a",    "a/",        "a//b",
					   ".",     "..",    "a/..",  "./a",       ".*",
					   ".?",    "a/.*",  ".[.]",  "a**",       "**a",
					   "a/***", "**/..", "\\.",   "\\.\\.",    "a[b",
					   "a\\",   "[z-a]", "[a/b]", "[[:foo:]]", "\xff" };
	char deep[200];

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert_msg(glob_check(bad[i]) != NULL, "%s", bad[i]);
	for (size_t i = 0; i < 62; i++)
		memcpy(deep + 2 * i, "a/", 2);
	deep[123] = '\0';
	ck_assert_ptr_nonnull(glob_check(deep));
	deep[121] = '\0';
	ck_assert_ptr_null(glob_check(deep));
	memcpy(deep + 119, "/**", 4);
	ck_assert_ptr_null(glob_check(deep));
}
END_TEST

START_TEST(depth_is_that_of_names)
{
	ck_assert_uint_eq(glob_depth("*"), 1);
	ck_assert_uint_eq(glob_depth("a/b/*"), 3);
	ck_assert_uint_eq(glob_depth("a/**/*"), UINT_MAX);
}
END_TEST

/* Neither stars in names nor stars for directories try all ways. */
START_TEST(test_attack_11_patterns_take_bounded_time)
{
	static const char *const parts[] = { "*a", "*?",           "*[ab]", "*[!b]",
					     "?*", "*[[:alpha:]]", "*a*b" };
	struct rlimit before, limit;
	char name[NAME_MAX + 1] = "", path[PATH_MAX] = "", deep[200] = "", result[3];
	struct rusage used;

	ck_assert_int_eq(getrlimit(RLIMIT_CPU, &before), 0);
	ck_assert_int_eq(getrusage(RUSAGE_SELF, &used), 0);
	limit = before;
	limit.rlim_cur = (rlim_t)used.ru_utime.tv_sec + 20;
	ck_assert_int_eq(setrlimit(RLIMIT_CPU, &limit), 0);
	memset(name, 'a', NAME_MAX);
	for (size_t i = 0; i < ELEMENTSOF(parts); i++) {
		char pattern[NAME_MAX + 1] = "";

		while (strlen(pattern) + strlen(parts[i]) < NAME_MAX)
			strcat(pattern, parts[i]);
		strcat(pattern, "c");
		walk(pattern, name, false, result);
		ck_assert_str_eq(result, "  ");
	}
	/* Thirty times any number of directories, in a thousand. */
	for (size_t i = 0; i < 30; i++)
		strcat(deep, "**/a/");
	strcat(deep, "b");
	for (size_t i = 0; i < 1000; i++)
		strcat(path, "a/");
	strcat(path, "c");
	walk(deep, path, false, result);
	ck_assert_str_eq(result, " d");
	ck_assert_int_eq(setrlimit(RLIMIT_CPU, &before), 0);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { paths_match,
				 patterns_may_ignore_the_case,
				 characters_are_letters_like_others,
				 any_of_several_patterns,
				 test_25_bad_patterns,
				 depth_is_that_of_names,
				 test_attack_11_patterns_take_bounded_time };

	return run_case("globs", tests, ELEMENTSOF(tests));
}
