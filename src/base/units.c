/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"

struct unit {
	const char *name;
	double factor;
};

/* Reads a decimal number (no sign, no exponent, no hexadecimal). Returns 0, -EINVAL, or -ERANGE for
 * a negative one; *s is moved past it and the blanks behind it. */
static int number_parse(const char **s, double *ret)
{
	const char *p = *s;
	size_t len;
	char digits[64];

	if (*p == '-' && isdigit((unsigned char)p[1]))
		return -ERANGE;
	len = strspn(p, "0123456789.");
	if (len == 0 || len >= sizeof(digits) || !isdigit((unsigned char)p[0]))
		return -EINVAL;
	memcpy(digits, p, len);
	digits[len] = '\0';
	if (strchr(digits, '.') != strrchr(digits, '.'))
		return -EINVAL;
	*ret = strtod(digits, NULL);
	p += len;
	*s = p + strspn(p, " \t");
	return 0;
}

static const struct unit *unit_find(const struct unit *units, size_t n, const char *s, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(units[i].name) == len && strncmp(units[i].name, s, len) == 0)
			return &units[i];
	return NULL;
}

static int to_u64(double v, uint64_t *ret)
{
	if (v < 0 || v >= 18446744073709551616.0)
		return -ERANGE;
	*ret = (uint64_t)v;
	return 0;
}

int share_parse(const char *s, double *ret)
{
	double v;
	int r = number_parse(&s, &v);

	if (r < 0)
		return r;
	if (strcmp(s, "%") != 0)
		return -EINVAL;
	if (v > 100)
		return -ERANGE;
	*ret = v / 100;
	return 0;
}

int size_parse(const char *s, uint64_t *ret_bytes)
{
	static const char prefixes[] = "KMGTPE";
	double v, base;
	int r, power = 0;

	s += strspn(s, " \t");
	r = number_parse(&s, &v);
	if (r < 0)
		return r;
	if (*s == '\0' && v > 0)
		return -EINVAL;
	base = 1024;
	if (*s && strchr(prefixes, *s)) {
		power = (int)(strchr(prefixes, *s++) - prefixes) + 1;
		if (strcmp(s, "B") == 0)
			base = 1000;
		if (strcmp(s, "iB") == 0)
			s++;
	}
	if (*s == 'B')
		s++;
	if (s[strspn(s, " \t")] != '\0')
		return -EINVAL;
	return to_u64(v * pow(base, power), ret_bytes);
}

int timespan_parse(const char *s, uint64_t *ret_usec)
{
	/* Spellings and factors: systemd.time(7). */
	static const struct unit units[] = {
		{ "us", 1 },
		{ "usec", 1 },
		{ "ms", 1e3 },
		{ "msec", 1e3 },
		{ "", 1e6 },
		{ "s", 1e6 },
		{ "sec", 1e6 },
		{ "second", 1e6 },
		{ "seconds", 1e6 },
		{ "m", 60e6 },
		{ "min", 60e6 },
		{ "minute", 60e6 },
		{ "minutes", 60e6 },
		{ "h", 3600e6 },
		{ "hr", 3600e6 },
		{ "hour", 3600e6 },
		{ "hours", 3600e6 },
		{ "d", 86400e6 },
		{ "day", 86400e6 },
		{ "days", 86400e6 },
		{ "w", 604800e6 },
		{ "week", 604800e6 },
		{ "weeks", 604800e6 },
		{ "month", 2629800e6 },
		{ "months", 2629800e6 },
		{ "M", 2629800e6 },
		{ "y", 31557600e6 },
		{ "year", 31557600e6 },
		{ "years", 31557600e6 },
	};
	double total = 0;

	s += strspn(s, " \t");
	do {
		const struct unit *u;
		size_t len;
		double v;
		int r = number_parse(&s, &v);

		if (r < 0)
			return r;
		len = strcspn(s, " \t0123456789.-");
		u = unit_find(units, ELEMENTSOF(units), s, len);
		if (!u || (len == 0 && v > 0))
			return -EINVAL;
		total += v * u->factor;
		s += len;
		s += strspn(s, " \t");
	} while (*s);
	return to_u64(total, ret_usec);
}

char *number_put(char *at, uint64_t n)
{
	char digits[20], *p = digits + sizeof(digits);
	size_t len;

	do
		*--p = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	len = (size_t)(digits + sizeof(digits) - p);
	return (char *)memcpy(at, p, len) + len;
}

static char *text_copy(char *buf, size_t len, const char *text)
{
	size_t n = strnlen(text, len - 1);

	memcpy(buf, text, n);
	buf[n] = '\0';
	return buf;
}

/* In tenths of 2^shift, rounded as printf does. */
static uint64_t tenths_of(uint64_t n, size_t shift)
{
	uint64_t one = UINT64_C(1) << shift, rest = (n & (one - 1)) * 10;
	uint64_t tenths = (n >> shift) * 10 + (rest >> shift), left = rest & (one - 1);

	if (left > one / 2 || (left == one / 2 && tenths % 2 == 1))
		tenths++;
	return tenths;
}

/* Without printf, which takes most of the time that a table of many rows takes. */
char *size_format(char *buf, size_t len, uint64_t bytes)
{
	static const char *const names[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };
	double v = (double)bytes;
	char text[32], *end;
	size_t i = 0;

	while (v >= 1023.95 && i + 1 < ELEMENTSOF(names)) {
		v /= 1024;
		i++;
	}
	if (i == 0) {
		end = number_put(text, bytes);
	} else {
		uint64_t tenths = tenths_of(bytes, 10 * i);

		end = number_put(text, tenths / 10);
		*end++ = '.';
		end = number_put(end, tenths % 10);
	}
	memcpy(end, names[i], strlen(names[i]) + 1);
	return text_copy(buf, len, text);
}

char *timespan_format(char *buf, size_t len, uint64_t usec)
{
	uint64_t s = usec / USEC_PER_SEC;

	if (usec < USEC_PER_SEC)
		(void)snprintf(buf, len, "%llums", (unsigned long long)(usec / 1000));
	else if (s < 10)
		(void)snprintf(buf, len, "%.1fs", (double)usec / USEC_PER_SEC);
	else if (s < 60)
		(void)snprintf(buf, len, "%llus", (unsigned long long)s);
	else if (s < 3600)
		(void)snprintf(buf, len, "%llumin %llus", (unsigned long long)(s / 60),
			       (unsigned long long)(s % 60));
	else if (s < 86400)
		(void)snprintf(buf, len, "%lluh %llumin", (unsigned long long)(s / 3600),
			       (unsigned long long)(s / 60 % 60));
	else
		(void)snprintf(buf, len, "%llud %lluh", (unsigned long long)(s / 86400),
			       (unsigned long long)(s / 3600 % 24));
	return buf;
}

char *count_format(char *buf, size_t len, uint64_t n)
{
	char digits[24];
	size_t d = (size_t)(number_put(digits, n) - digits), o = 0;

	for (size_t i = 0; i < d && o + 2 < len; i++) {
		if (i > 0 && (d - i) % 3 == 0)
			buf[o++] = ',';
		buf[o++] = digits[i];
	}
	buf[o] = '\0';
	return buf;
}

char *counted_format(char *buf, size_t len, uint64_t n, const char *one, const char *many)
{
	char count[28];

	(void)snprintf(buf, len, "%s %s", count_format(count, sizeof(count), n),
		       n == 1 ? one : many);
	return buf;
}
