/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "globs.h"

#include <assert.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* A state is a bit for each name of a pattern that may come next, and one for its end. */
#define NAMES_MOST 62

struct glob {
	char *text; /* the names, each ended by NUL */
	const char *names[NAMES_MOST + 1];
	unsigned n;
};

struct globs {
	struct glob *v;
	size_t n;
	int flags; /* of fnmatch */
};

static bool is_any_depth(const char *name)
{
	return strcmp(name, "**") == 0;
}

/* What one name of a pattern must not be. */
static const char *name_check(const char *name)
{
	if (name[0] == '\0')
		return "a pattern without an empty name in it: no slash at its ends, none twice";
	if (!is_any_depth(name) && strstr(name, "**"))
		return "two stars only as a whole name, as in **/*.log";
	if (fnmatch(name, ".", FNM_PERIOD) == 0 || fnmatch(name, "..", FNM_PERIOD) == 0)
		return "a pattern that cannot mean . or .., such as .[!.]* for names that begin "
		       "with a dot";
	return NULL;
}

const char *glob_check(const char *pattern)
{
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

static int glob_split(struct glob *g, const char *pattern)
{
	char *rest, *name;

	g->text = strdup(pattern);
	if (!g->text)
		return -ENOMEM;
	rest = g->text;
	while ((name = strsep(&rest, "/")) && g->n < NAMES_MOST)
		g->names[g->n++] = name;
	/* At the end it stands for what is beneath, not for the directory itself. */
	if (is_any_depth(g->names[g->n - 1]))
		g->names[g->n++] = "*";
	return 0;
}

int globs_new(struct globs **ret, char *const *patterns, bool exclude)
{
	struct globs *g = calloc(1, sizeof(*g));
	size_t n = 0;
	int r = 0;

	if (!g)
		return -ENOMEM;
	while (patterns && patterns[n])
		n++;
	g->flags = exclude ? 0 : FNM_PERIOD;
	g->v = calloc(n + 1, sizeof(*g->v));
	if (!g->v)
		r = -ENOMEM;
	while (r >= 0 && g->n < n) {
		r = glob_split(&g->v[g->n], patterns[g->n]);
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
		free(g->v[i].text);
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
		if ((state >> i & 1) && is_any_depth(g->names[i]))
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

static uint64_t step(const struct glob *g, uint64_t at, const char *name, int flags)
{
	uint64_t next = 0;

	for (unsigned i = 0; i < g->n; i++) {
		if (!(at >> i & 1))
			continue;
		if (!is_any_depth(g->names[i]))
			next |= fnmatch(g->names[i], name, flags) == 0 ? 2ULL << i : 0;
		else if (fnmatch("*", name, flags) == 0)
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

		ret[i] = step(&g->v[i], at[i], name, g->flags);
		matches = matches || (ret[i] & end);
		deeper = deeper || (ret[i] & (end - 1));
	}
	*ret_deeper = deeper;
	return matches;
}
