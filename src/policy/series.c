/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "series.h"

#include <stdio.h>

const char *series_check(const char *expression)
{
	const char *why = "an expression, and memory for it";
	struct pattern *p = NULL;
	int r = pattern_new(&p, expression, &why);

	pattern_free(p);
	return r < 0 ? why : NULL;
}

bool series_of(struct pattern *p, const char *name, char *buf, size_t len)
{
	struct pattern_group groups[PATTERN_GROUPS];
	size_t at = 0;

	buf[0] = '\0';
	if (!p)
		return true;
	/* What could not be found out for want of memory belongs to none, too. */
	if (pattern_match(p, name, groups) != 1)
		return false;
	for (size_t i = 0; i < pattern_groups(p) && at < len; i++) {
		int n = groups[i].begin < 0 ? 0 : groups[i].end - groups[i].begin;
		int k = snprintf(buf + at, len - at, "%s%.*s", i == 0 ? "" : SERIES_SEPARATOR, n,
				 n > 0 ? name + groups[i].begin : "");

		at += k < 0 ? 0 : (size_t)k;
	}
	return at < len;
}
