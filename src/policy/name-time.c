/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "name-time.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/macros.h"
#include "retention.h"

#define DAY 86400LL

/* The fields that a conversion sets. */
enum field {
	YEAR,
	SHORT_YEAR, /* without the century */
	MONTH,
	DAY_OF_MONTH,
	DAY_OF_YEAR,
	WEEK_YEAR,
	WEEK,
	DAY_OF_WEEK,
	HOUR,
	MINUTE,
	SECOND,
	EPOCH_USEC,
	OFFSET, /* from UTC, in seconds */
	FIELDS
};

#define BIT(field) (1U << (field))

static const struct conversion {
	char letter;
	enum field field;
	unsigned width; /* digits; 0 for conversions with rules of their own */
	unsigned least, most;
} conversions[] = {
	{ 'Y', YEAR, 4, 1970, 9999 },      { 'y', SHORT_YEAR, 2, 0, 99 },
	{ 'm', MONTH, 2, 1, 12 },          { 'd', DAY_OF_MONTH, 2, 1, 31 },
	{ 'e', DAY_OF_MONTH, 0, 1, 31 },   { 'j', DAY_OF_YEAR, 3, 1, 366 },
	{ 'G', WEEK_YEAR, 4, 1970, 9999 }, { 'V', WEEK, 2, 1, 53 },
	{ 'u', DAY_OF_WEEK, 1, 1, 7 },     { 'H', HOUR, 2, 0, 23 },
	{ 'M', MINUTE, 2, 0, 59 },         { 'S', SECOND, 2, 0, 60 },
	{ 'b', MONTH, 0, 1, 12 },          { 'B', MONTH, 0, 1, 12 },
	{ 'h', MONTH, 0, 1, 12 },          { 's', EPOCH_USEC, 0, 0, 0 },
	{ 'z', OFFSET, 0, 0, 0 },
};

/* Conversions that stand for several. */
static const struct {
	char letter;
	const char *format;
} shorthands[] = { { 'F', "%Y-%m-%d" }, { 'T', "%H:%M:%S" }, { 'R', "%H:%M" } };

static const struct conversion *conversion_find(char letter)
{
	for (size_t i = 0; i < ELEMENTSOF(conversions); i++)
		if (conversions[i].letter == letter)
			return &conversions[i];
	return NULL;
}

static const char *shorthand_find(char letter)
{
	for (size_t i = 0; i < ELEMENTSOF(shorthands); i++)
		if (shorthands[i].letter == letter)
			return shorthands[i].format;
	return NULL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- formats ----------------------------------------------------------------------------------
 */

/* Returns the fields that a format sets, as bits; 0 if there is an unknown conversion. */
static unsigned format_fields(const char *format)
{
	unsigned fields = 0;

	for (const char *s = format; (s = strchr(s, '%')); s += 2) {
		const char *shorthand = shorthand_find(s[1]);
		const struct conversion *c = conversion_find(s[1]);

		if (shorthand)
			fields |= format_fields(shorthand);
		else if (c)
			fields |= BIT(c->field);
		else if (s[1] != '%')
			return 0;
	}
	return fields;
}

static bool has_all(unsigned fields, unsigned wanted)
{
	return (fields & wanted) == wanted;
}

/* Returns true if the fields determine a day, or an instant. */
static bool has_day(unsigned fields)
{
	return (fields & (BIT(YEAR) | BIT(SHORT_YEAR)) &&
		(fields & BIT(DAY_OF_YEAR) || has_all(fields, BIT(MONTH) | BIT(DAY_OF_MONTH)))) ||
	       has_all(fields, BIT(WEEK_YEAR) | BIT(WEEK) | BIT(DAY_OF_WEEK)) ||
	       fields & BIT(EPOCH_USEC);
}

bool name_time_check(const char *format)
{
	unsigned fields = format_fields(format);

	return has_day(fields) || fields == BIT(YEAR) || fields == (BIT(YEAR) | BIT(MONTH)) ||
	       fields == (BIT(WEEK_YEAR) | BIT(WEEK));
}

/* ---- names ------------------------------------------------------------------------------------
 */

struct reading {
	const char *at; /* what of the name is next */
	unsigned fields;
	int64_t v[FIELDS];
};

/* Sets a field. Returns false if it is set already, to something else. */
static bool field_set(struct reading *r, enum field field, int64_t value)
{
	if (r->fields & BIT(field))
		return r->v[field] == value;
	r->fields |= BIT(field);
	r->v[field] = value;
	return true;
}

/* Reads a number of this many digits, and returns it, or -1. */
static int64_t digits_read(struct reading *r, unsigned width)
{
	int64_t n = 0;

	for (unsigned i = 0; i < width; i++) {
		if (!is_digit(r->at[i]))
			return -1;
		n = 10 * n + (r->at[i] - '0');
	}
	r->at += width;
	return n;
}

static bool epoch_read(struct reading *r)
{
	size_t n = strspn(r->at, "0123456789");
	int64_t per_unit = n == 10 ? 1000000 : n == 13 ? 1000 : n == 16 ? 1 : 0;

	/* With a zero in front it is a number of another kind. */
	return per_unit > 0 && r->at[0] != '0' &&
	       field_set(r, EPOCH_USEC, digits_read(r, (unsigned)n) * per_unit);
}

/* Reads a month in English, in full or by its first three letters. */
static bool month_read(struct reading *r)
{
	static const char *const names[] = { "January",   "February", "March",    "April",
					     "May",       "June",     "July",     "August",
					     "September", "October",  "November", "December" };

	for (unsigned i = 0; i < ELEMENTSOF(names); i++) {
		size_t len = strlen(names[i]);

		if (strncasecmp(r->at, names[i], 3) != 0)
			continue;
		r->at += strncasecmp(r->at, names[i], len) == 0 ? len : 3;
		return field_set(r, MONTH, i + 1);
	}
	return false;
}

/* Reads +01:00, +0100, +01 or Z. */
static bool offset_read(struct reading *r)
{
	int sign = *r->at == '-' ? -1 : 1;
	int64_t hours, minutes = 0;

	if (*r->at == 'Z') {
		r->at++;
		return field_set(r, OFFSET, 0);
	}
	if (*r->at != '+' && *r->at != '-')
		return false;
	r->at++;
	hours = digits_read(r, 2);
	if (*r->at == ':' || is_digit(*r->at)) {
		r->at += *r->at == ':';
		minutes = digits_read(r, 2);
	}
	return hours >= 0 && hours <= 14 && minutes >= 0 && minutes < 60 &&
	       field_set(r, OFFSET, sign * (hours * 3600 + minutes * 60));
}

static bool conversion_read(struct reading *r, const struct conversion *c)
{
	int64_t n;

	if (c->field == EPOCH_USEC)
		return epoch_read(r);
	if (c->field == OFFSET)
		return offset_read(r);
	if (c->field == MONTH && c->width == 0)
		return month_read(r);
	/* %e has a blank in the place of a zero. */
	if (c->letter == 'e' && *r->at == ' ') {
		r->at++;
		n = digits_read(r, 1);
	} else {
		n = digits_read(r, c->width > 0 ? c->width : 2);
	}
	return n >= c->least && n <= c->most && field_set(r, c->field, n);
}

/* Reads the name as the format says. A Z directly behind a time is UTC. */
static bool format_read(struct reading *r, const char *format)
{
	for (const char *s = format; *s; s++) {
		const char *shorthand;
		bool ok;

		if (*s == '%' && s[1] != '%') {
			shorthand = shorthand_find(*++s);
			ok = shorthand ? format_read(r, shorthand)
				       : conversion_read(r, conversion_find(*s));
		} else if (*s == 'Z' && r->fields & BIT(HOUR) && !is_letter(s[1])) {
			ok = offset_read(r) && r->at[-1] == 'Z';
		} else {
			s += *s == '%';
			ok = *r->at == *s;
			r->at++;
		}
		if (!ok)
			return false;
	}
	return true;
}

/* ---- times ------------------------------------------------------------------------------------
 */

/* Returns the days from 1970-01-01 to a date, whose month may be past the end of the year. */
static int64_t days_to(int64_t year, int64_t month, int64_t day)
{
	struct tm tm = { .tm_year = (int)(year - 1900),
			 .tm_mon = (int)(month - 1),
			 .tm_mday = (int)day };

	return timegm(&tm) / DAY;
}

/* Returns the days to the Monday of the first week of an ISO year: the week of January the 4th.
 * 1970-01-01 was a Thursday. */
static int64_t days_to_week_year(int64_t year)
{
	int64_t fourth = days_to(year, 1, 4);

	return fourth - (fourth + 3) % 7;
}

/* Sets the first day that the fields determine, and the first one behind it that they do not.
 * Returns false if no calendar has that date. */
static bool days_find(const struct reading *r, int64_t *ret_from, int64_t *ret_to)
{
	int64_t year = r->v[YEAR], from, to;

	/* As strptime(3) has it. */
	if (r->fields & BIT(SHORT_YEAR))
		year = r->v[SHORT_YEAR] + (r->v[SHORT_YEAR] < 69 ? 2000 : 1900);
	if (r->fields & BIT(SHORT_YEAR) && r->fields & BIT(YEAR) && year % 100 != r->v[YEAR] % 100)
		return false;
	if (r->fields & BIT(YEAR))
		year = r->v[YEAR];
	if (r->fields & BIT(DAY_OF_MONTH)) {
		from = days_to(year, r->v[MONTH], r->v[DAY_OF_MONTH]);
		to = from + 1;
		if (to > days_to(year, r->v[MONTH] + 1, 1))
			return false;
	} else if (r->fields & BIT(DAY_OF_YEAR)) {
		from = days_to(year, 1, 1) + r->v[DAY_OF_YEAR] - 1;
		to = from + 1;
		if (to > days_to(year + 1, 1, 1))
			return false;
	} else if (r->fields & BIT(WEEK)) {
		from = days_to_week_year(r->v[WEEK_YEAR]) + 7 * (r->v[WEEK] - 1);
		to = from + 7;
		if (from >= days_to_week_year(r->v[WEEK_YEAR] + 1))
			return false;
		if (r->fields & BIT(DAY_OF_WEEK)) {
			from += r->v[DAY_OF_WEEK] - 1;
			to = from + 1;
		}
	} else if (r->fields & BIT(MONTH)) {
		from = days_to(year, r->v[MONTH], 1);
		to = days_to(year, r->v[MONTH] + 1, 1);
	} else {
		from = days_to(year, 1, 1);
		to = days_to(year + 1, 1, 1);
	}
	*ret_from = from;
	*ret_to = to;
	return true;
}

static long offset_at(int64_t t)
{
	time_t at = (time_t)t;
	struct tm tm = { 0 };

	return localtime_r(&at, &tm) ? tm.tm_gmtoff : 0;
}

/* Returns when the clock on the wall shows `wall`, given as if it showed UTC. Of an hour that comes
 * twice it is the later one, and a time that is skipped counts from before the gap: both are the
 * younger age. mktime(3) would answer by what it was asked before. */
static int64_t wall_to_time(int64_t wall)
{
	const long offsets[] = { offset_at(wall - DAY), offset_at(wall + DAY) };
	int64_t skipped = wall - MIN(offsets[0], offsets[1]), found = INT64_MIN;

	if (offsets[0] == offsets[1])
		return skipped;
	for (size_t i = 0; i < ELEMENTSOF(offsets); i++)
		if (offset_at(wall - offsets[i]) == offsets[i])
			found = MAX(found, wall - offsets[i]);
	return found > INT64_MIN ? found : skipped;
}

/* Sets *ret_nsec to what has been read. Returns false if that is no date of a calendar, or before
 * 1970. */
static bool time_find(const struct reading *r, int64_t now_nsec, int64_t *ret_nsec)
{
	int64_t from, to, of_day, t;

	if (r->fields & BIT(EPOCH_USEC)) {
		*ret_nsec =
			r->v[EPOCH_USEC] <= INT64_MAX / 1000 ? r->v[EPOCH_USEC] * 1000 : INT64_MAX;
		return true;
	}
	if (!days_find(r, &from, &to))
		return false;
	of_day = r->v[HOUR] * 3600 + r->v[MINUTE] * 60 + MIN(r->v[SECOND], 59);
	if (r->fields & BIT(OFFSET))
		t = from * DAY + of_day - r->v[OFFSET];
	else
		t = wall_to_time(from * DAY + of_day);
	if (t < 0 || t >= INT64_MAX / NSEC_PER_SEC)
		return false;
	*ret_nsec = t * NSEC_PER_SEC;
	if (!has_day(r->fields) && *ret_nsec <= now_nsec)
		*ret_nsec = MIN(
			MIN(wall_to_time(to * DAY), INT64_MAX / NSEC_PER_SEC) * NSEC_PER_SEC - 1,
			now_nsec);
	return true;
}

enum name_time name_time_find(const char *format, const char *name, int64_t now_nsec,
			      int64_t *ret_nsec)
{
	enum name_time found = NAME_TIME_NONE;

	for (const char *at = name; *at; at++) {
		struct reading r = { .at = at };
		int64_t nsec;

		if ((at > name && is_digit(at[-1]) && is_digit(at[0])) ||
		    !format_read(&r, format) || (is_digit(r.at[-1]) && is_digit(r.at[0])))
			continue;
		/* The name says more than the format does. */
		if (r.at[0] == 'Z' && !is_letter(r.at[1]) && r.fields & BIT(HOUR) &&
		    !(r.fields & BIT(OFFSET)))
			(void)field_set(&r, OFFSET, 0);
		if (!time_find(&r, now_nsec, &nsec))
			continue;
		if (found == NAME_TIME_FOUND && nsec != *ret_nsec)
			return NAME_TIME_AMBIGUOUS;
		*ret_nsec = nsec;
		found = NAME_TIME_FOUND;
	}
	return found;
}
