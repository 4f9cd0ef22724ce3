/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "timestamps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "base/units.h"

/* What is further away is surely a slip; and it keeps sums far from overflow. */
#define SPAN_MOST (USEC_PER_SEC * 86400 * 366 * 100)

uint64_t realtime_usec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
}

/* Reads a local time of today or, with `date`, of any day. Returns 0, -EINVAL if it is none, or
 * -ERANGE. mktime(3) finds out whether it is summer time. */
static int local_parse(const char *s, bool date, uint64_t now_usec, uint64_t *ret_usec)
{
	static const char *const formats[][2] = { { "%H:%M", "%H:%M:%S" },
						  { "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S" } };
	time_t now = (time_t)(now_usec / USEC_PER_SEC), t;

	for (size_t i = 0; i < ELEMENTSOF(formats[0]); i++) {
		const char *end;
		struct tm tm, today;

		if (!localtime_r(&now, &tm))
			return -ERANGE;
		tm.tm_sec = 0;
		tm.tm_isdst = -1;
		end = strptime(s, formats[date][i], &tm);
		if (!end || *end != '\0')
			continue;
		/* Of a copy, as mktime changes a time that the day does not have. */
		today = tm;
		t = mktime(&today);
		/* A time of day that has passed is that of tomorrow. */
		if (t >= 0 && !date && (uint64_t)t * USEC_PER_SEC <= now_usec) {
			tm.tm_mday++;
			tm.tm_isdst = -1;
			t = mktime(&tm);
		}
		if (t < 0)
			return -ERANGE;
		*ret_usec = (uint64_t)t * USEC_PER_SEC;
		return 0;
	}
	return -EINVAL;
}

int timestamp_parse(const char *s, uint64_t now_usec, uint64_t *ret_usec)
{
	uint64_t usec = 0;
	int r = local_parse(s, /* date= */ false, now_usec, &usec);

	if (r == -EINVAL)
		r = local_parse(s, /* date= */ true, now_usec, &usec);
	if (r == -EINVAL && !strchr(s, ':')) {
		r = timespan_parse(s, &usec);
		usec = now_usec + MIN(usec, SPAN_MOST + 1);
	}
	if (r < 0)
		return r;
	if (usec < now_usec || usec - now_usec > SPAN_MOST)
		return -ERANGE;
	*ret_usec = usec;
	return 0;
}

static uint64_t distance(uint64_t usec, uint64_t now_usec)
{
	return usec > now_usec ? usec - now_usec : now_usec - usec;
}

char *distance_format(char *buf, uint64_t usec, uint64_t now_usec)
{
	static const struct {
		unsigned seconds;
		const char *name;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
	uint64_t s = distance(usec, now_usec) / USEC_PER_SEC;
	bool later = usec > now_usec;
	size_t i = 0;

	while (s > 0 && units[i].seconds > s)
		i++;
	if (s == 0)
		(void)snprintf(buf, DISTANCE_SIZE, "now");
	else
		(void)snprintf(buf, DISTANCE_SIZE, "%s%" PRIu64 "%s%s", later ? "in " : "",
			       s / units[i].seconds, units[i].name, later ? "" : " ago");
	return buf;
}

char *timestamp_format(char *buf, size_t len, uint64_t usec, uint64_t now_usec)
{
	uint64_t away = distance(usec, now_usec);
	time_t t = (time_t)(usec / USEC_PER_SEC);
	char when[32], span[32];
	struct tm tm;

	if (!localtime_r(&t, &tm) || strftime(when, sizeof(when), "%F %T", &tm) == 0)
		when[0] = '\0';
	/* Tenths of a second are of no use here. */
	if (away < 10 * USEC_PER_SEC)
		(void)snprintf(span, sizeof(span), "%us", (unsigned)(away / USEC_PER_SEC));
	else
		(void)timespan_format(span, sizeof(span), away);
	if (away < USEC_PER_SEC)
		(void)snprintf(buf, len, "%s (now)", when);
	else
		(void)snprintf(buf, len, usec > now_usec ? "%s (in %s)" : "%s (%s ago)", when,
			       span);
	return buf;
}
