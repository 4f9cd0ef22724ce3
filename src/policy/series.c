/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "series.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#define GROUPS_MOST 9

struct series {
	bool compiled;
	regex_t expression;
};

bool series_check(const char *expression)
{
	struct series *s = NULL;
	int r = series_new(&s, expression);

	series_free(s);
	return r >= 0;
}

int series_new(struct series **ret, const char *expression)
{
	struct series *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->compiled = expression && regcomp(&s->expression, expression, REG_EXTENDED) == 0;
	if (expression &&
	    (!s->compiled || s->expression.re_nsub < 1 || s->expression.re_nsub > GROUPS_MOST)) {
		series_free(s);
		return -EINVAL;
	}
	*ret = s;
	return 0;
}

struct series *series_free(struct series *s)
{
	if (s && s->compiled)
		regfree(&s->expression);
	free(s);
	return NULL;
}

bool series_of(const struct series *s, const char *name, char *buf, size_t len)
{
	regmatch_t groups[GROUPS_MOST + 1];
	size_t at = 0;

	buf[0] = '\0';
	if (!s->compiled)
		return true;
	if (regexec(&s->expression, name, GROUPS_MOST + 1, groups, 0) != 0)
		return false;
	for (size_t i = 1; i <= s->expression.re_nsub && at < len; i++) {
		int n = groups[i].rm_so < 0 ? 0 : (int)(groups[i].rm_eo - groups[i].rm_so);
		int k = snprintf(buf + at, len - at, "%s%.*s", i == 1 ? "" : SERIES_SEPARATOR, n,
				 n > 0 ? name + groups[i].rm_so : "");

		at += k < 0 ? 0 : (size_t)k;
	}
	return at < len;
}
