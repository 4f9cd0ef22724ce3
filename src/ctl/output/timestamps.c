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

/* True if the whole of s is what the format of strptime(3) says. */
static bool reads(const char *s, const char *format, struct tm *ret)
{
	struct tm tm = *ret;
	const char *end = strptime(s, format, &tm);

	if (!end || *end != '\0')
		return false;
	*ret = tm;
	return true;
}

/* Converts local time; mktime(3) finds out whether it is summer time. */
static int local_to_usec(struct tm tm, uint64_t *ret_usec)
{
	time_t t;

	tm.tm_isdst = -1;
	t = mktime(&tm);
	if (t < 0)
		return -ERANGE;
	*ret_usec = (uint64_t)t * USEC_PER_SEC;
	return 0;
}

static int clock_parse(struct tm tm, const char *s, uint64_t now_usec, uint64_t *ret_usec)
{
	uint64_t usec;
	int r;

	tm.tm_sec = 0;
	if (!reads(s, "%H:%M", &tm) && !reads(s, "%H:%M:%S", &tm))
		return -EINVAL;
	r = local_to_usec(tm, &usec);
	if (r >= 0 && usec <= now_usec) {
		tm.tm_mday++;
		r = local_to_usec(tm, &usec);
	}
	if (r >= 0)
		*ret_usec = usec;
	return r;
}

static int date_parse(struct tm tm, const char *s, uint64_t now_usec, uint64_t *ret_usec)
{
	uint64_t usec;
	int r;

	tm.tm_sec = 0;
	if (!reads(s, "%Y-%m-%d %H:%M", &tm) && !reads(s, "%Y-%m-%d %H:%M:%S", &tm))
		return -EINVAL;
	r = local_to_usec(tm, &usec);
	if (r < 0)
		return r;
	if (usec <= now_usec || usec - now_usec > SPAN_MOST)
		return -ERANGE;
	*ret_usec = usec;
	return 0;
}

int timestamp_parse(const char *s, uint64_t now_usec, uint64_t *ret_usec)
{
	time_t now = (time_t)(now_usec / USEC_PER_SEC);
	uint64_t span;
	struct tm tm;
	int r;

	if (!localtime_r(&now, &tm))
		return -ERANGE;
	r = clock_parse(tm, s, now_usec, ret_usec);
	if (r != -EINVAL)
		return r;
	r = date_parse(tm, s, now_usec, ret_usec);
	if (r != -EINVAL || strchr(s, ':'))
		return r;
	r = timespan_parse(s, &span);
	if (r < 0)
		return r;
	if (span > SPAN_MOST)
		return -ERANGE;
	*ret_usec = now_usec + span;
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

static char *span_format(char *buf, size_t len, uint64_t usec, uint64_t now_usec)
{
	uint64_t away = distance(usec, now_usec);
	char span[32];

	if (away < USEC_PER_SEC) {
		(void)snprintf(buf, len, "now");
		return buf;
	}
	/* Tenths of a second are of no use here. */
	if (away < 10 * USEC_PER_SEC)
		(void)snprintf(span, sizeof(span), "%us", (unsigned)(away / USEC_PER_SEC));
	else
		(void)timespan_format(span, sizeof(span), away);
	(void)snprintf(buf, len, usec > now_usec ? "in %s" : "%s ago", span);
	return buf;
}

char *timestamp_format(char *buf, size_t len, uint64_t usec, uint64_t now_usec)
{
	time_t t = (time_t)(usec / USEC_PER_SEC);
	char when[32], away[48];
	struct tm tm;

	if (!localtime_r(&t, &tm) || strftime(when, sizeof(when), "%F %T", &tm) == 0)
		when[0] = '\0';
	(void)snprintf(buf, len, "%s (%s)", when, span_format(away, sizeof(away), usec, now_usec));
	return buf;
}
