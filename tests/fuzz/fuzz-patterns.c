/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What policies say of names: patterns, series, times. Whatever is taken for one can be asked about
 * any name, comes to an answer, and never means `.` or `..`.
 *
 * An input is a byte that says which it is, the pattern, a NUL, and names, each ended by one. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "policy/globs.h"
#include "policy/name-time.h"
#include "policy/selection.h"
#include "base/macros.h"

enum { MATCH, EXCLUDE, SERIES, TIME, KINDS };

struct names {
	const char *at, *end;
};

static const char *next_name(struct names *n)
{
	const char *name = n->at;

	if (n->at >= n->end)
		return NULL;
	n->at += strlen(n->at) + 1;
	return name;
}

static bool ask_globs(char *pattern, struct names names, bool exclude)
{
	char *const patterns[] = { pattern, NULL };
	uint64_t at[1], next[1];
	struct globs *g = NULL;
	const char *name;
	bool deeper;

	if (glob_check(pattern))
		return false;
	must(glob_depth(pattern) > 0);
	must(globs_new(&g, patterns, exclude, /* ignore_case= */ exclude) == 0 &&
	     globs_words(g) == 1);
	globs_begin(g, at);
	if (!exclude) {
		must(!globs_step(g, at, ".", next, &deeper) && !deeper);
		must(!globs_step(g, at, "..", next, &deeper) && !deeper);
	}
	while ((name = next_name(&names))) {
		(void)globs_step(g, at, name, next, &deeper);
		memcpy(at, next, sizeof(at));
		if (!exclude && deeper)
			must(!globs_step(g, at, "..", next, &deeper));
	}
	globs_free(g);
	return true;
}

static bool ask_series(const char *expression, struct names names)
{
	char buf[300], again[300];
	const struct policy p = { .group_by = (char *)expression };
	struct selection *s = NULL;
	const char *name;

	if (series_check(expression)) {
		must(selection_new(&s, &p) < 0);
		return false;
	}
	must(selection_new(&s, &p) == 0);
	while ((name = next_name(&names))) {
		int matches = selection_series(s, name, buf, sizeof(buf));

		must(memchr(buf, '\0', sizeof(buf)));
		must(selection_series(s, name, again, sizeof(again)) == matches);
		must(matches <= 0 || strcmp(buf, again) == 0);
	}
	selection_free(s);
	return true;
}

static bool ask_time(const char *format, struct names names)
{
	const char *name;
	int64_t nsec;

	if (!name_time_check(format))
		return false;
	while ((name = next_name(&names)))
		if (name_time_find(format, name, INT64_MAX, &nsec) == NAME_TIME_FOUND)
			must(nsec >= 0);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *pattern = malloc(size + 1);
	struct names names;
	bool taken = false;

	must(pattern);
	if (size > 0) {
		memcpy(pattern, data + 1, size - 1);
		pattern[size - 1] = '\0';
		names = (struct names){ pattern, pattern + size };
		(void)next_name(&names);
		switch (data[0] % KINDS) {
		case MATCH:
		case EXCLUDE:
			taken = ask_globs(pattern, names, data[0] % KINDS == EXCLUDE);
			break;
		case SERIES:
			taken = ask_series(pattern, names);
			break;
		case TIME:
			taken = ask_time(pattern, names);
			break;
		}
		told(taken);
	}
	free(pattern);
	return 0;
}

/* ---- patterns as people write them ---------------------------------------------------------- */

static void say_glob(struct words *w)
{
	do {
		if (w->n > 1)
			sayf(w, "/");
		if (chance(w, 15)) {
			sayf(w, "**");
			continue;
		}
		sayf(w, "%s", CHOOSE(w, "a", "log", "[!.]", "x"));
		while (chance(w, 60))
			sayf(w, "%s%s",
			     CHOOSE(w, "", "*", "?", "[a-z]", "[[:digit:]]", "[!x]", "\\*"),
			     CHOOSE(w, ".gz", "-", "b", "\xc3\xa9"));
	} while (chance(w, 40));
}

static void say_expression(struct words *w, unsigned depth)
{
	do {
		sayf(w, "%s", CHOOSE(w, "a", "[a-z]", "[^-]", ".", "db", "[[:alnum:]]", "\\."));
		if (chance(w, 30))
			sayf(w, "%s", CHOOSE(w, "*", "+", "?", "{2}", "{1,3}"));
		if (depth > 0 && chance(w, 20)) {
			sayf(w, "(");
			say_expression(w, depth - 1);
			sayf(w, ")%s", CHOOSE(w, "", "", "*", "?"));
		}
		if (chance(w, 10))
			sayf(w, "|");
	} while (chance(w, 50));
}

static void say_series(struct words *w)
{
	sayf(w, "%s(", chance(w, 50) ? "^" : "");
	say_expression(w, 2);
	sayf(w, ")%s", CHOOSE(w, "", "-", "$", "[0-9]"));
}

static void say_format(struct words *w)
{
	do
		sayf(w, "%s", CHOOSE(w, "%H%M", "-", ".", "%S", "%%", "%R", "db"));
	while (chance(w, 30));
	sayf(w, "%s", CHOOSE(w, "%Y-%m-%d", "%Y%m%d", "%s", "%F", "%d %b %Y", "%y%j", "%FT%T%z"));
}

void grammar(struct words *w)
{
	uint8_t kind = (uint8_t)choose(w, KINDS);

	w->n = 0;
	say(w, &kind, 1);
	if (kind == SERIES)
		say_series(w);
	else if (kind == TIME)
		say_format(w);
	else
		say_glob(w);
	for (uint32_t i = choose(w, 4); i > 0; i--) {
		say(w, "", 1);
		sayf(w, "%s",
		     CHOOSE(w, "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "db-", ".", "x", "log"));
		sayf(w, "%u-%02u-%02u%s", 1960 + choose(w, 100), choose(w, 14), choose(w, 33),
		     CHOOSE(w, ".gz", "", "T01:02:03+0100", "é"));
	}
}
