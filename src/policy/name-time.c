/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "name-time.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#include "retention.h"

/* Conversions that strptime(3) understands and that say the same in every locale. */
static const char known[] = "YymdejbBhHMSTRFsz%";

static bool has(const char *format, const char *conversions)
{
	for (const char *s = format; (s = strchr(s, '%')) && s[1]; s += 2)
		if (strchr(conversions, s[1]))
			return true;
	return false;
}

bool name_time_check(const char *format)
{
	for (const char *s = format; (s = strchr(s, '%')); s += 2)
		if (s[1] == '\0' || !strchr(known, s[1]))
			return false;
	if (has(format, "sF"))
		return true;
	return has(format, "Yy") &&
	       (has(format, "j") || (has(format, "mbBh") && has(format, "de")));
}

static time_t to_seconds(const char *format, struct tm *tm)
{
	long offset = tm->tm_gmtoff;

	if (has(format, "z"))
		return timegm(tm) - offset;
	/* %s has said already which of the two it is when an hour comes twice. */
	if (!has(format, "s"))
		tm->tm_isdst = -1;
	return mktime(tm);
}

static bool parse_at(const char *format, const char *name, const char *at, int64_t *ret_nsec)
{
	struct tm given, tm = { .tm_mday = 1 };
	const char *end;
	time_t t;

	if (at > name && isdigit((unsigned char)at[-1]) && isdigit((unsigned char)at[0]))
		return false;
	end = strptime(at, format, &tm);
	if (!end || (isdigit((unsigned char)end[-1]) && isdigit((unsigned char)end[0])))
		return false;
	given = tm;
	t = to_seconds(format, &tm);
	/* It is another day now if there is no such one. */
	if (tm.tm_mday != given.tm_mday || tm.tm_mon != given.tm_mon ||
	    tm.tm_year != given.tm_year || t < 0 || t >= INT64_MAX / NSEC_PER_SEC)
		return false;
	*ret_nsec = (int64_t)t * NSEC_PER_SEC;
	return true;
}

bool name_time_parse(const char *format, const char *name, int64_t *ret_nsec)
{
	for (const char *at = name; *at; at++)
		/* strptime would skip blanks of a name that the format does not have. */
		if (!isspace((unsigned char)*at) && parse_at(format, name, at, ret_nsec))
			return true;
	return false;
}
