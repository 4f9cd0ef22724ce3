/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "proxy-header.h"

#include <endian.h>
#include <string.h>

#include "base/macros.h"

#define FIXED 16
#define METHOD_CALL 1
#define VERSION 1
#define FLAGS_KNOWN 7
#define ROOT "/org/reclaimd1"

enum field { PATH = 1, INTERFACE = 2, MEMBER = 3, DESTINATION = 6, SIGNATURE = 8, UNIX_FDS = 9 };

/* Those that every call has. */
#define NEEDED (1U << PATH | 1U << MEMBER | 1U << SIGNATURE | 1U << UNIX_FDS)

struct header {
	const uint8_t *data;
	size_t at, end;
	bool little;
};

static bool is_of(const char *s, const char *chars, size_t most)
{
	size_t len = strlen(s);

	return len > 0 && len <= most && strspn(s, chars) == len;
}

static bool is_path(const char *s)
{
	static const char chars[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/";

	return strncmp(s, ROOT, strlen(ROOT)) == 0 && is_of(s, chars, 255) && !strstr(s, "//") &&
	       s[strlen(s) - 1] != '/';
}

static bool is_one_of(const char *s, const char *const *known, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(s, known[i]) == 0)
			return true;
	return false;
}

static bool text_is_good(enum field f, const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char *const interfaces[] = { "org.reclaimd1.Manager", "org.reclaimd1.Job" };
	static const char *const signatures[] = { "aha(uay)a{sv}", "a(hh)a{sv}", "aaya{sv}",
						  "ta{sv}",        "htt",        "a{sv}" };

	switch (f) {
	case PATH:
		return is_path(s);
	case INTERFACE:
		return is_one_of(s, interfaces, ELEMENTSOF(interfaces));
	case MEMBER:
		return is_of(s, letters, 64);
	case DESTINATION:
		return strcmp(s, "org.reclaimd1") == 0;
	case SIGNATURE:
		return is_one_of(s, signatures, ELEMENTSOF(signatures));
	case UNIX_FDS:
		break;
	}
	return false;
}

/* Moves on to a multiple of `to`; what is skipped must be zero. */
static bool align(struct header *h, size_t to)
{
	for (; h->at < h->end && h->at % to; h->at++)
		if (h->data[h->at])
			return false;
	return h->at < h->end;
}

static bool take(struct header *h, void *ret, size_t n)
{
	if (n > h->end - h->at)
		return false;
	memcpy(ret, h->data + h->at, n);
	h->at += n;
	return true;
}

static bool take_u32(struct header *h, uint32_t *ret)
{
	uint32_t v;

	if (!take(h, &v, sizeof(v)))
		return false;
	*ret = h->little ? le32toh(v) : be32toh(v);
	return true;
}

/* A string with its length before it (in one byte if `is_short`) and a NUL behind it. */
static const char *take_text(struct header *h, bool is_short)
{
	const char *s = NULL;
	uint8_t byte = 0;
	uint32_t len;

	if (!(is_short ? take(h, &byte, 1) : take_u32(h, &len)))
		return NULL;
	if (is_short)
		len = byte;
	if (len >= h->end - h->at)
		return NULL;
	s = (const char *)h->data + h->at;
	if (memchr(s, '\0', (size_t)len + 1) != s + len)
		return NULL;
	h->at += (size_t)len + 1;
	return s;
}

/* One of the fields: its code, the signature of its value, and that. */
static bool field_is_good(struct header *h, size_t n_fds, unsigned *seen)
{
	uint8_t start[4];
	uint32_t n;
	const char *s;
	char type;

	if (!align(h, 8) || !take(h, start, sizeof(start)))
		return false;
	if (start[0] > UNIX_FDS || *seen & 1U << start[0])
		return false;
	*seen |= 1U << start[0];
	type = start[0] == PATH        ? 'o'
	       : start[0] == SIGNATURE ? 'g'
	       : start[0] == UNIX_FDS  ? 'u'
				       : 's';
	if (start[1] != 1 || start[2] != (uint8_t)type || start[3] != 0)
		return false;
	if (start[0] == UNIX_FDS)
		return take_u32(h, &n) && n == n_fds;
	s = take_text(h, start[0] == SIGNATURE);
	return s && text_is_good(start[0], s);
}

bool header_may_carry(const uint8_t *data, size_t len, size_t n_fds)
{
	struct header h = { .data = data, .at = 8, .end = len, .little = data[0] == 'l' };
	uint32_t serial, fields;
	unsigned seen = 0;

	if (len < FIXED || (!h.little && data[0] != 'B') || data[1] != METHOD_CALL ||
	    data[2] & ~FLAGS_KNOWN || data[3] != VERSION)
		return false;
	if (!take_u32(&h, &serial) || serial == 0 || !take_u32(&h, &fields) || fields > len - FIXED)
		return false;
	h.end = FIXED + fields;
	while (h.at < h.end)
		if (!field_is_good(&h, n_fds, &seen))
			return false;
	/* Up to the body. */
	for (; h.at < len; h.at++)
		if (data[h.at])
			return false;
	return (seen & NEEDED) == NEEDED;
}
