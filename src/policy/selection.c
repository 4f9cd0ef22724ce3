/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "selection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "globs.h"
#include "pattern.h"

struct selection {
	const struct policy *p;
	struct globs *match, *exclude, *chain_start;
	struct pattern *series, *unit; /* NULL without group-by, without unit-by */
};

const char *series_check(const char *expression)
{
	const char *why = "an expression, and memory for it";
	struct pattern *p = NULL;
	int r = pattern_new(&p, expression, &why);

	pattern_free(p);
	return r < 0 ? why : NULL;
}

int selection_new(struct selection **ret, const struct policy *p)
{
	struct selection *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->p = p;
	r = globs_new(&s->match, p->match, /* exclude= */ false, p->match_ignores_case);
	if (r >= 0)
		r = globs_new(&s->exclude, p->exclude, /* exclude= */ true,
			      p->exclude_ignores_case);
	if (r >= 0)
		r = globs_new(&s->chain_start, p->chain_start, /* exclude= */ true,
			      /* ignore_case= */ false);
	if (r >= 0 && p->group_by)
		r = pattern_new(&s->series, p->group_by, &(const char *){ NULL });
	if (r >= 0 && p->unit_by)
		r = pattern_new(&s->unit, p->unit_by, &(const char *){ NULL });
	if (r < 0)
		selection_free(s);
	else
		*ret = s;
	return r;
}

struct selection *selection_free(struct selection *s)
{
	if (!s)
		return NULL;
	globs_free(s->match);
	globs_free(s->exclude);
	globs_free(s->chain_start);
	pattern_free(s->series);
	pattern_free(s->unit);
	free(s);
	return NULL;
}

size_t selection_words(const struct selection *s)
{
	return globs_words(s->match) + globs_words(s->exclude);
}

void selection_begin(const struct selection *s, uint64_t *ret)
{
	globs_begin(s->match, ret);
	globs_begin(s->exclude, ret + globs_words(s->match));
}

enum selected selection_step(const struct selection *s, const uint64_t *at, const char *name,
			     uint64_t *ret, bool *ret_deeper)
{
	size_t n = globs_words(s->match);
	bool beyond, matches = globs_step(s->match, at, name, ret, ret_deeper);

	if (!matches && !*ret_deeper)
		return SELECTED_NOT;
	if (globs_step(s->exclude, at + n, name, ret + n, &beyond)) {
		*ret_deeper = false;
		return SELECTED_OUT;
	}
	return matches ? SELECTED_ENTRY : SELECTED_BELOW;
}

enum name_time selection_time(const struct selection *s, const char *name, int64_t now_nsec,
			      int64_t *ret_nsec)
{
	return name_time_find(s->p->time.format, name, now_nsec, ret_nsec);
}

/* Writes what the groups of an expression match. Returns 1, 0 if it does not match, or a negative
 * errno. */
static int groups_write(struct pattern *p, const char *name, char *buf, size_t len)
{
	struct pattern_group groups[PATTERN_GROUPS];
	int r = pattern_match(p, name, groups);
	size_t at = 0;

	for (size_t i = 0; r == 1 && i < pattern_groups(p); i++) {
		int n = groups[i].begin < 0 ? 0 : groups[i].end - groups[i].begin;
		int k = snprintf(buf + at, len - at, "%s%.*s", i == 0 ? "" : SERIES_SEPARATOR, n,
				 n > 0 ? name + groups[i].begin : "");

		at += k < 0 ? len : (size_t)k;
		if (at >= len)
			r = -ENAMETOOLONG;
	}
	if (r != 1)
		buf[0] = '\0';
	return r;
}

int selection_series(struct selection *s, const char *name, char *buf, size_t len)
{
	buf[0] = '\0';
	return s->series ? groups_write(s->series, name, buf, len) : 1;
}

int selection_unit(struct selection *s, const char *name, char *buf, size_t len)
{
	int r = s->unit ? groups_write(s->unit, name, buf, len) : 0;

	if (r != 1)
		buf[0] = '\0';
	return MIN(r, 0);
}

bool selection_starts_chain(const struct selection *s, const char *name)
{
	return globs_match(s->chain_start, name);
}
