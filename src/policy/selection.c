/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "selection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "globs.h"
#include "name-time.h"
#include "pattern.h"

struct selection {
	const struct policy *p;
	struct globs *match, *exclude;
	struct pattern *series; /* NULL without group-by */
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
	r = globs_new(&s->match, p->match, /* exclude= */ false);
	if (r >= 0)
		r = globs_new(&s->exclude, p->exclude, /* exclude= */ true);
	if (r >= 0 && p->group_by)
		r = pattern_new(&s->series, p->group_by, &(const char *){ NULL });
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
	pattern_free(s->series);
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

bool selection_step(const struct selection *s, const uint64_t *at, const char *name, uint64_t *ret,
		    bool *ret_deeper)
{
	size_t n = globs_words(s->match);
	bool beyond, matches = globs_step(s->match, at, name, ret, ret_deeper);

	if ((matches || *ret_deeper) && globs_step(s->exclude, at + n, name, ret + n, &beyond))
		matches = *ret_deeper = false;
	return matches;
}

bool selection_time(const struct selection *s, const char *name, int64_t *ret_nsec)
{
	return name_time_parse(s->p->time.format, name, ret_nsec);
}

bool selection_series(struct selection *s, const char *name, char *buf, size_t len)
{
	struct pattern_group groups[PATTERN_GROUPS];
	size_t at = 0;

	buf[0] = '\0';
	if (!s->series)
		return true;
	if (pattern_match(s->series, name, groups) != 1)
		return false;
	for (size_t i = 0; i < pattern_groups(s->series) && at < len; i++) {
		int n = groups[i].begin < 0 ? 0 : groups[i].end - groups[i].begin;
		int k = snprintf(buf + at, len - at, "%s%.*s", i == 0 ? "" : SERIES_SEPARATOR, n,
				 n > 0 ? name + groups[i].begin : "");

		at += k < 0 ? 0 : (size_t)k;
	}
	return at < len;
}
