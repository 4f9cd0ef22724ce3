/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "base/macros.h"

/* splitmix64, by Steele, Lea and Flood (2014) */
static uint64_t next(struct words *w)
{
	uint64_t z = w->state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

uint32_t choose(struct words *w, uint32_t n)
{
	return (uint32_t)(next(w) % n);
}

bool chance(struct words *w, uint32_t percent)
{
	return choose(w, 100) < percent;
}

uint64_t any_number(struct words *w)
{
	static const uint64_t ends[] = { INT8_MAX,   UINT8_MAX,  UINT16_MAX, INT32_MAX,
					 UINT32_MAX, 1ULL << 32, INT64_MAX,  UINT64_MAX };

	return chance(w, 70) ? choose(w, 12) : ends[choose(w, ELEMENTSOF(ends))];
}

void say(struct words *w, const void *data, size_t len)
{
	len = MIN(len, w->most - w->n);
	if (len > 0)
		memcpy(w->v + w->n, data, len);
	w->n += len;
}

void sayf(struct words *w, const char *format, ...)
{
	char text[512];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	must(n >= 0 && (size_t)n < sizeof(text));
	say(w, text, (size_t)n);
}

const char *choose_text(struct words *w, const char *const *v, size_t n)
{
	return v[choose(w, (uint32_t)n)];
}

void put_back(struct words *w, size_t at, const void *data, size_t len)
{
	if (at <= w->n && len <= w->n - at)
		memcpy(w->v + at, data, len);
}

static uint64_t accepted, all;

unsigned told_share(void)
{
	return all > 0 ? (unsigned)(accepted * 100 / all) : 100;
}

static void show(void)
{
	(void)fprintf(stderr, "accepted: %llu of %llu, %u %%\n", (unsigned long long)accepted,
		      (unsigned long long)all, told_share());
}

void told(bool is_accepted)
{
	if (all++ == 0)
		must(atexit(show) == 0);
	accepted += is_accepted;
}
