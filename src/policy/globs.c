/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "globs.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"
#include "characters.h"

/* A state is a bit for each name of a pattern that may come next, and one for its end. */
#define NAMES_MOST 62

/* A part of one name of a pattern. */
struct atom {
	enum { ATOM_CHARACTER, ATOM_ANY, ATOM_SET, ATOM_STAR } kind;
	uint32_t c;
	struct character_set *set;
};

struct glob_name {
	bool any_depth; /* it is ** and has no atoms */
	struct atom *atoms;
	size_t n;
};

struct glob {
	struct glob_name names[NAMES_MOST + 1];
	unsigned n;
	bool ignore_case;
};

struct globs {
	struct glob *v;
	size_t n;
	bool exclude;
};

/* ---- one name ---------------------------------------------------------------------------------
 */

static void name_done(struct glob_name *g)
{
	for (size_t i = 0; i < g->n; i++)
		character_set_free(g->atoms[i].set);
	free(g->atoms);
	*g = (struct glob_name){ 0 };
}

/* Reads the next part of a pattern at *at. Returns 0, -ENOMEM, or as character_set_read does. */
static int atom_read(struct atom *ret, const char **at)
{
	*ret = (struct atom){ .kind = **at == '*'   ? ATOM_STAR
				      : **at == '?' ? ATOM_ANY
						    : ATOM_CHARACTER };
	if (**at == '[') {
		int r = character_set_read(&ret->set, at, SET_OF_GLOB);

		ret->kind = ATOM_SET;
		return r;
	}
	if (**at == '\\' && *++*at == '\0')
		return -EINVAL;
	ret->c = character_next(at);
	return 0;
}

/* Takes one name of a pattern apart. Returns 0 or a negative errno as atom_read does; *ret is to be
 * released in any case. */
static int name_read(struct glob_name *ret, const char *name)
{
	ret->any_depth = strcmp(name, "**") == 0;
	while (*name && !ret->any_depth) {
		struct atom *a = array_add(&ret->atoms, &ret->n, sizeof(*a));
		int r = a ? atom_read(a, &name) : -ENOMEM;

		if (r < 0)
			return r;
	}
	return 0;
}

static bool atom_has(const struct atom *a, uint32_t c, bool ignore_case)
{
	switch (a->kind) {
	case ATOM_CHARACTER:
		return ignore_case ? characters_fold(a->c, c) : a->c == c;
	case ATOM_SET:
		return character_set_has(a->set, c, !ignore_case);
	case ATOM_ANY:
		return true;
	case ATOM_STAR:
		break;
	}
	return false;
}

/* Returns true if the name matches. Where it does not, only the last star takes one character more:
 * stars before it need none, because it can take all that they could. So the time is at most
 * proportional to the lengths of both. With `dots`, a name that begins with a dot is matched only
 * by a pattern that does. */
static bool name_matches(const struct glob_name *g, const char *name, bool ignore_case, bool dots)
{
	const char *again = NULL;
	size_t i = 0, star = 0;

	if (dots && name[0] == '.' &&
	    (g->n == 0 || g->atoms[0].kind != ATOM_CHARACTER || g->atoms[0].c != '.'))
		return false;
	while (*name || i < g->n) {
		const char *next = name;

		if (i < g->n && g->atoms[i].kind == ATOM_STAR) {
			star = ++i;
			again = name;
		} else if (*name && i < g->n &&
			   atom_has(&g->atoms[i], character_next(&next), ignore_case)) {
			name = next;
			i++;
		} else if (again && *again) {
			(void)character_next(&again);
			name = again;
			i = star;
		} else {
			return false;
		}
	}
	return true;
}

/* ---- patterns ---------------------------------------------------------------------------------
 */

/* Returns what one name of a pattern should be instead, or NULL if it is right. */
static const char *name_check(const char *name)
{
	struct glob_name g = { 0 };
	bool is_dots;
	int r;

	if (name[0] == '\0')
		return "a pattern without an empty name in it: no slash at its ends, none twice";
	if (strcmp(name, "**") != 0 && strstr(name, "**"))
		return "two stars only as a whole name, as in **/*.log";
	r = name_read(&g, name);
	is_dots = !g.any_depth &&
		  (name_matches(&g, ".", false, true) || name_matches(&g, "..", false, true));
	name_done(&g);
	if (r == -EOPNOTSUPP)
		return "a pattern without classes such as [:alpha:]: the locale C.UTF-8, which "
		       "says what is in them, is not installed";
	if (r == -EINVAL)
		return "a pattern in which each [ has its ], such as [a-z], and each backslash "
		       "quotes a character; \\[ stands for the bracket itself";
	if (is_dots)
		return "a pattern that cannot mean . or .., such as .[!.]* for names that begin "
		       "with a dot";
	return NULL;
}

const char *glob_check(const char *pattern)
{
	if (!characters_are_valid(pattern))
		return "a pattern in UTF-8";
	for (unsigned n = 1;; n++) {
		char name[NAME_MAX + 1] = "";
		size_t len = strcspn(pattern, "/");
		const char *expected;

		if (len > NAME_MAX)
			return "a pattern with names of at most 255 bytes";
		memcpy(name, pattern, len);
		expected = name_check(name);
		if (expected)
			return expected;
		if (n >= NAMES_MOST)
			return "a pattern of fewer than 62 names";
		if (pattern[len] == '\0')
			return NULL;
		pattern += len + 1;
	}
}

unsigned glob_depth(const char *pattern)
{
	unsigned n = 1;

	if (strstr(pattern, "**"))
		return UINT_MAX;
	for (const char *s = pattern; *s; s++)
		n += *s == '/';
	return n;
}

static int glob_read(struct glob *g, const char *pattern)
{
	char *text = strdup(pattern), *rest = text, *name;
	int r = text ? 0 : -ENOMEM;

	while (r >= 0 && (name = strsep(&rest, "/")) && g->n < NAMES_MOST)
		r = name_read(&g->names[g->n++], name);
	/* At the end it stands for what is beneath, not for the directory itself. */
	if (r >= 0 && g->names[g->n - 1].any_depth)
		r = name_read(&g->names[g->n++], "*");
	free(text);
	return r;
}

int globs_new(struct globs **ret, char *const *patterns, bool exclude, bool ignore_case)
{
	struct globs *g = calloc(1, sizeof(*g));
	size_t n = 0;
	int r = 0;

	if (!g)
		return -ENOMEM;
	while (patterns && patterns[n])
		n++;
	g->exclude = exclude;
	g->v = calloc(n + 1, sizeof(*g->v));
	if (!g->v)
		r = -ENOMEM;
	while (r >= 0 && g->n < n) {
		g->v[g->n].ignore_case = ignore_case;
		r = glob_read(&g->v[g->n], patterns[g->n]);
		g->n++;
	}
	if (r < 0)
		globs_free(g);
	else
		*ret = g;
	return r;
}

struct globs *globs_free(struct globs *g)
{
	if (!g)
		return NULL;
	for (size_t i = 0; i < g->n; i++)
		for (unsigned k = 0; k < g->v[i].n; k++)
			name_done(&g->v[i].names[k]);
	free(g->v);
	free(g);
	return NULL;
}

size_t globs_words(const struct globs *g)
{
	return g->n;
}

/* Two stars may stand for nothing: what is behind them may come next, too. */
static uint64_t with_nothing(const struct glob *g, uint64_t state)
{
	for (unsigned i = 0; i < g->n; i++)
		if ((state >> i & 1) && g->names[i].any_depth)
			state |= 2ULL << i;
	return state;
}

void globs_begin(const struct globs *g, uint64_t *ret)
{
	for (size_t i = 0; i < g->n; i++) {
		assert(g->v[i].n > 0 && g->v[i].n <= NAMES_MOST + 1);
		ret[i] = with_nothing(&g->v[i], 1);
	}
}

static uint64_t step(const struct glob *g, uint64_t at, const char *name, bool exclude)
{
	uint64_t next = 0;

	for (unsigned i = 0; i < g->n; i++) {
		if (!(at >> i & 1))
			continue;
		if (!g->names[i].any_depth)
			next |= name_matches(&g->names[i], name, g->ignore_case, !exclude)
					? 2ULL << i
					: 0;
		else if (exclude || name[0] != '.')
			next |= 1ULL << i;
	}
	return with_nothing(g, next);
}

bool globs_step(const struct globs *g, const uint64_t *at, const char *name, uint64_t *ret,
		bool *ret_deeper)
{
	bool matches = false, deeper = false;

	for (size_t i = 0; i < g->n; i++) {
		uint64_t end = 1ULL << g->v[i].n;

		ret[i] = step(&g->v[i], at[i], name, g->exclude);
		matches = matches || (ret[i] & end);
		deeper = deeper || (ret[i] & (end - 1));
	}
	*ret_deeper = deeper;
	return matches;
}

bool globs_match(const struct globs *g, const char *path)
{
	bool matches = false;

	for (size_t i = 0; i < g->n && !matches; i++) {
		uint64_t at = with_nothing(&g->v[i], 1);
		char name[NAME_MAX + 1];

		for (const char *s = path; at != 0; s++) {
			size_t len = strcspn(s, "/");

			(void)snprintf(name, sizeof(name), "%.*s", (int)len, s);
			at = step(&g->v[i], at, name, g->exclude);
			s += len;
			if (*s == '\0')
				break;
		}
		matches = at & 1ULL << g->v[i].n;
	}
	return matches;
}
