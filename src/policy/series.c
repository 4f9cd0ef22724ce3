/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "series.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "pattern.h"

struct series {
	struct pattern *pattern; /* NULL: everything is one */
};

static int read_pattern(struct pattern **ret, const char *expression, const char **ret_why)
{
	int r = pattern_new(ret, expression, ret_why);
	unsigned n = r < 0 ? 0 : pattern_groups(*ret);

	if (r < 0 || (n >= 1 && n <= PATTERN_GROUPS))
		return r;
	pattern_free(*ret);
	*ret_why = "an expression with one to nine groups in parentheses, such as ^([a-z]+)-";
	return -EINVAL;
}

const char *series_check(const char *expression)
{
	const char *why = "an expression, and memory for it";
	struct pattern *p = NULL;

	if (read_pattern(&p, expression, &why) < 0)
		return why;
	pattern_free(p);
	return NULL;
}

int series_new(struct series **ret, const char *expression)
{
	struct series *s = calloc(1, sizeof(*s));
	const char *why;
	int r = s ? 0 : -ENOMEM;

	if (r >= 0 && expression)
		r = read_pattern(&s->pattern, expression, &why);
	if (r < 0) {
		free(s);
		return r == -ENOMEM ? r : -EINVAL;
	}
	*ret = s;
	return 0;
}

struct series *series_free(struct series *s)
{
	if (s)
		pattern_free(s->pattern);
	free(s);
	return NULL;
}

bool series_of(const struct series *s, const char *name, char *buf, size_t len)
{
	struct pattern_group groups[PATTERN_GROUPS];
	size_t at = 0;

	buf[0] = '\0';
	if (!s->pattern)
		return true;
	/* What could not be found out for want of memory belongs to none, too. */
	if (pattern_match(s->pattern, name, groups) != 1)
		return false;
	for (size_t i = 0; i < pattern_groups(s->pattern) && at < len; i++) {
		int n = groups[i].begin < 0 ? 0 : groups[i].end - groups[i].begin;
		int k = snprintf(buf + at, len - at, "%s%.*s", i == 0 ? "" : SERIES_SEPARATOR, n,
				 n > 0 ? name + groups[i].begin : "");

		at += k < 0 ? 0 : (size_t)k;
	}
	return at < len;
}
