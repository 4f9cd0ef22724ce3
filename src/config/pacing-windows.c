/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pacing-windows.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/macros.h"
#include "config.h"

#define DAYS 7
#define DAY 86400U
#define WEEK (DAYS * DAY)
/* No time zone changes its clock twice within so many seconds. */
#define STEP_MOST (6 * 3600)

/* Begins on days, of which each is a bit, Sunday the lowest, at a second of the day; ends at one
 * that is later, and on the next day where it is beyond this one. */
struct span {
	unsigned days, from, to;
};

/* ---- the text --------------------------------------------------------------------------------
 */

static int day_parse(const char **at, unsigned *ret)
{
	static const char *const names[DAYS] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
						 "Thursday", "Friday", "Saturday" };
	size_t len = strspn(*at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

	for (unsigned i = 0; i < DAYS; i++)
		if ((len == 3 || len == strlen(names[i])) && strncasecmp(*at, names[i], len) == 0) {
			*at += len;
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

/* Skips a word. Returns whether it was there. */
static bool skip(const char **at, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(*at, word, len) != 0)
		return false;
	*at += len;
	return true;
}

/* "Mon..Fri,Sun" */
static int days_parse(const char **at, unsigned *ret)
{
	unsigned first, last;

	do {
		if (day_parse(at, &first) < 0)
			return -EINVAL;
		last = first;
		if (skip(at, "..") && day_parse(at, &last) < 0)
			return -EINVAL;
		for (*ret |= 1U << last; first != last; first = (first + 1) % DAYS)
			*ret |= 1U << first;
	} while (skip(at, ","));
	return 0;
}

static int digits_parse(const char **at, unsigned most, unsigned *ret)
{
	if (strspn(*at, "0123456789") != 2)
		return -EINVAL;
	*ret = (unsigned)((*at)[0] - '0') * 10 + (unsigned)((*at)[1] - '0');
	*at += 2;
	return *ret > most ? -EINVAL : 0;
}

/* "08:00", "23:59:59", "24:00" */
static int clock_parse(const char **at, unsigned *ret)
{
	unsigned hour, minute, second = 0;

	if (digits_parse(at, 24, &hour) < 0 || !skip(at, ":") || digits_parse(at, 59, &minute) < 0)
		return -EINVAL;
	if (skip(at, ":") && digits_parse(at, 59, &second) < 0)
		return -EINVAL;
	*ret = hour * 3600 + minute * 60 + second;
	return *ret > DAY ? -EINVAL : 0;
}

static int clocks_parse(const char **at, struct span *ret)
{
	if (clock_parse(at, &ret->from) < 0 || !skip(at, "..") || clock_parse(at, &ret->to) < 0 ||
	    ret->from == DAY || ret->from == ret->to)
		return -EINVAL;
	if (ret->to < ret->from)
		ret->to += DAY;
	return 0;
}

static int span_parse(const char *text, struct span *ret)
{
	const char *at = text;
	bool has_days = strspn(at, "0123456789") == 0;
	struct span s = { .days = 0, .from = 0, .to = DAY };

	if (has_days && days_parse(&at, &s.days) < 0)
		return -EINVAL;
	if (!has_days)
		s.days = (1U << DAYS) - 1;
	if ((!has_days || skip(&at, " ")) && clocks_parse(&at, &s) < 0)
		return -EINVAL;
	if (*at)
		return -EINVAL;
	*ret = s;
	return 0;
}

const char *window_span_check(const char *span)
{
	struct span s;

	if (span_parse(span, &s) >= 0)
		return NULL;
	return "weekdays, times of the day from..to, or both, such as \"Mon..Fri 08:00..18:00\", "
	       "22:00..06:00 or Sat,Sun; nothing else of OnCalendar= is understood here (no dates, "
	       "no *, no time zones)";
}

/* ---- the week --------------------------------------------------------------------------------
 */

/* What the clock on the wall shows, as seconds since Sunday 00:00; and how far it is from UTC. */
static unsigned wall_clock(int64_t t, long *ret_offset)
{
	time_t at = (time_t)t;
	struct tm tm = { 0 };

	(void)localtime_r(&at, &tm);
	*ret_offset = tm.tm_gmtoff;
	return (unsigned)tm.tm_wday * DAY + (unsigned)tm.tm_hour * 3600 + (unsigned)tm.tm_min * 60 +
	       MIN((unsigned)tm.tm_sec, 59U);
}

static bool span_holds(const struct span *s, unsigned at)
{
	for (unsigned day = 0; day < DAYS; day++) {
		unsigned since = (at + WEEK - day * DAY) % WEEK;

		if (s->days & 1U << day && since >= s->from && since < s->to)
			return true;
	}
	return false;
}

/* In how many seconds it begins or ends; 1 to a week. */
static unsigned span_change(const struct span *s, unsigned at)
{
	unsigned least = WEEK;

	for (unsigned day = 0; day < DAYS; day++) {
		const unsigned edges[] = { s->from, s->to };

		for (size_t i = 0; s->days & 1U << day && i < ELEMENTSOF(edges); i++) {
			unsigned in = (day * DAY + edges[i] + WEEK - at) % WEEK;

			least = MIN(least, in > 0 ? in : WEEK);
		}
	}
	return least;
}

/* Which one is in force, and in how many seconds that may change. */
static const struct config_window *look(const struct config_window *v, size_t n, unsigned at,
					unsigned *ret_change)
{
	const struct config_window *slowest = NULL;
	struct span s;

	*ret_change = WEEK;
	for (size_t i = 0; i < n; i++) {
		int r = span_parse(v[i].span, &s);

		assert(r >= 0); /* it was checked as it was read */
		*ret_change = MIN(*ret_change, span_change(&s, at));
		if (span_holds(&s, at) && (!slowest || v[i].rate < slowest->rate))
			slowest = &v[i];
	}
	return slowest;
}

/* When the clock on the wall makes a jump after `from`, or else `to`. */
static int64_t jump_find(int64_t from, int64_t to)
{
	long before, offset;

	(void)wall_clock(from, &before);
	(void)wall_clock(to, &offset);
	if (offset == before)
		return to;
	while (to - from > 1) {
		int64_t middle = from + (to - from) / 2;

		(void)wall_clock(middle, &offset);
		if (offset == before)
			from = middle;
		else
			to = middle;
	}
	return to;
}

struct window_state windows_at(const struct config_window *v, size_t n, uint64_t now_usec)
{
	int64_t t = (int64_t)(now_usec / USEC_PER_SEC);
	/* After a week all comes again; a jump of the clock may put it off. */
	const int64_t end = t + WEEK + DAY;
	struct window_state s = { NULL, UINT64_MAX };
	unsigned change;
	long offset;

	if (n == 0)
		return s;
	s.window = look(v, n, wall_clock(t, &offset), &change);
	while (t < end) {
		t = jump_find(t, t + MIN(change, (unsigned)STEP_MOST));
		if (look(v, n, wall_clock(t, &offset), &change) != s.window) {
			s.until_usec = (uint64_t)t * USEC_PER_SEC;
			break;
		}
	}
	return s;
}
