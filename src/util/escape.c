/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"

/* Decodes one UTF-8 sequence. Returns its length, or 0 if it is not a valid one (overlong forms,
 * surrogates and what is past U+10FFFF included). */
static size_t utf8_decode(const unsigned char *s, size_t len, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = s[0] < 0x80       ? 1
		   : s[0] >> 5 == 6  ? 2
		   : s[0] >> 4 == 14 ? 3
		   : s[0] >> 3 == 30 ? 4
				     : 0;
	uint32_t c = n == 1 ? s[0] : n ? s[0] & (0x7fU >> n) : 0;

	if (n == 0 || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		c = c << 6 | (s[i] & 0x3fU);
	}
	if (n > 1 && c < least[n])
		return 0;
	if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

/* Characters that are invisible, or change what is seen around them: C0 and C1 controls, the
 * bidirectional controls (Unicode TR 36), zero-width and separator characters, and tags. */
static bool is_deceptive(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
	       (c >= 0xe0000 && c <= 0xe007f);
}

static char *put_escaped(char *o, unsigned char b)
{
	static const char hex[] = "0123456789abcdef";

	*o++ = '\\';
	switch (b) {
	case '\n':
		*o++ = 'n';
		break;
	case '\t':
		*o++ = 't';
		break;
	case '\\':
		*o++ = '\\';
		break;
	default:
		*o++ = 'x';
		*o++ = hex[b >> 4];
		*o++ = hex[b & 15];
	}
	return o;
}

char *escape_bytes(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	char *out = malloc(len * 4 + 1), *o = out;

	if (!out)
		return NULL;
	for (size_t i = 0; i < len;) {
		uint32_t c = p[i];
		/* Most are this kind. */
		size_t n = c >= ' ' && c < 0x7f ? 1 : utf8_decode(p + i, len - i, &c);

		if (n == 0 || is_deceptive(c) || c == '\\') {
			for (size_t end = i + MAX(n, (size_t)1); i < end; i++)
				o = put_escaped(o, p[i]);
			continue;
		}
		memcpy(o, p + i, n);
		o += n;
		i += n;
	}
	*o = '\0';
	return out;
}

/* Eight bytes at a time, as lists have hundreds of thousands of texts. In each byte the highest bit
 * is set where it was, where taking a blank away borrows, and where DEL is what one more makes 128.
 * A borrow or a carry into a neighbour means that there was a byte to be found. */
size_t escape_span(const char *s)
{
	const uint64_t ones = 0x0101010101010101;
	size_t n = strlen(s), i = 0;
	uint64_t w;

	for (; n - i >= sizeof(w); i += sizeof(w)) {
		memcpy(&w, s + i, sizeof(w));
		if ((w | (w - ones * ' ') | (w + ones)) & ones * 0x80)
			break;
	}
	while (s[i] >= ' ' && s[i] <= '~')
		i++;
	return i;
}

char *escape_name(const char *s)
{
	return escape_bytes(s, strlen(s));
}

bool utf8_is_valid(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	for (size_t left = strlen(s); left > 0;) {
		uint32_t c = 0;
		size_t n = utf8_decode(p, left, &c);

		if (n == 0)
			return false;
		p += n;
		left -= n;
	}
	return true;
}
