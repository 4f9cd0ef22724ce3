/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "escape.h"

#include <getopt.h>
#include <limits.h>
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
 * bidirectional controls (Unicode TR 36), separators of lines, and what Unicode calls default
 * ignorable code points (DerivedCoreProperties.txt): zero-width characters, fillers, variation
 * selectors, tags. */
static bool is_deceptive(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x34f || c == 0x61c ||
	       c == 0x115f || c == 0x1160 || c == 0x17b4 || c == 0x17b5 ||
	       (c >= 0x180b && c <= 0x180f) || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0x3164 ||
	       (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff || c == 0xffa0 ||
	       (c >= 0xfff0 && c <= 0xfffb) || (c >= 0x1bca0 && c <= 0x1bca3) ||
	       (c >= 0x1d173 && c <= 0x1d17a) || (c >= 0xe0000 && c <= 0xe0fff);
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

/* The most that stands for one character: four bytes as \\xNN. */
#define ESCAPED_MOST 16

enum escape { ESCAPE_NAME, ESCAPE_LINE };

/* Writes what stands for the first character at p; *used is how many of the left bytes it has.
 * Returns the end of what was written. */
static char *put_character(char *o, const unsigned char *p, size_t left, enum escape how,
			   size_t *used)
{
	uint32_t c = p[0];
	/* Most are this kind. */
	size_t n = c >= ' ' && c < 0x7f ? 1 : utf8_decode(p, left, &c);

	*used = MAX(n, (size_t)1);
	if (n == 0 || is_deceptive(c) || (c == '\\' && how == ESCAPE_NAME)) {
		for (size_t i = 0; i < *used; i++)
			o = put_escaped(o, p[i]);
		return o;
	}
	memcpy(o, p, n);
	return o + n;
}

static char *escape(const char *s, size_t len, enum escape how)
{
	const unsigned char *p = (const unsigned char *)s;
	char *out = malloc(len * 4 + 1), *o = out;

	if (!out)
		return NULL;
	for (size_t i = 0, used; i < len; i += used)
		o = put_character(o, p + i, len - i, how, &used);
	*o = '\0';
	return out;
}

char *escape_bytes(const char *s, size_t len)
{
	return escape(s, len, ESCAPE_NAME);
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
	return escape(s, strlen(s), ESCAPE_NAME);
}

char *escape_line(const char *s)
{
	return escape(s, strlen(s), ESCAPE_LINE);
}

char *escape_ascii(const char *s)
{
	char *out = malloc(strlen(s) * 4 + 1), *o = out;

	if (!out)
		return NULL;
	for (; *s; s++)
		if (*s & 0x80)
			o = put_escaped(o, (unsigned char)*s);
		else
			*o++ = *s;
	*o = '\0';
	return out;
}

bool text_is_safe(const char *s)
{
	const unsigned char *p = (const unsigned char *)s + escape_span(s);

	for (size_t left = strlen((const char *)p); left > 0;) {
		uint32_t c = 0;
		size_t n = utf8_decode(p, left, &c);

		if (n == 0 || is_deceptive(c))
			return false;
		p += n;
		left -= n;
	}
	return true;
}

/* ---- one line ----------------------------------------------------------------------------- */

static void fill(struct safe_text *t, const char *raw)
{
	static const char dots[] = "...";
	const unsigned char *p = (const unsigned char *)raw;
	char *o = t->line, *end = t->line + sizeof(t->line), *cut = o, piece[ESCAPED_MOST];

	for (size_t left = strlen(raw), used; left > 0; p += used, left -= used) {
		size_t n = (size_t)(put_character(piece, p, left, ESCAPE_LINE, &used) - piece);

		if (n >= (size_t)(end - o)) {
			memcpy(cut, dots, sizeof(dots));
			return;
		}
		memcpy(o, piece, n);
		o += n;
		if ((size_t)(end - o) >= sizeof(dots))
			cut = o;
	}
	*o = '\0';
}

void safe_text_formatv(struct safe_text *t, const char *format, va_list ap)
{
	/* So much longer that a character that is cut here has no room there. */
	char raw[sizeof(t->line) + 4];

	if (vsnprintf(raw, sizeof(raw), format, ap) < 0)
		raw[0] = '\0';
	fill(t, raw);
}

void safe_text_format(struct safe_text *t, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	safe_text_formatv(t, format, ap);
	va_end(ap);
}

void safe_text_print(const char *program, const struct safe_text *t)
{
	(void)fprintf(stderr, "%s: %s\n", program, t->line);
}

void safe_text_option(struct safe_text *t, int c, char *const *argv)
{
	bool is_letter = optopt > 0 && optopt <= UCHAR_MAX;
	const char letter[] = { '-', (char)optopt, '\0' };
	const char *word = is_letter ? letter : argv[optind - 1];
	_cleanup_free_ char *shown = escape_bytes(word, is_letter ? 2 : strcspn(word, "="));

	safe_text_format(t,
			 c == ':'                    ? "option '%s' needs a value"
			 : optopt != 0 && !is_letter ? "option '%s' takes no value"
						     : "unrecognized option '%s'",
			 shown ? shown : "?");
}
