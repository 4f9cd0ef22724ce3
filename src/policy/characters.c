/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "characters.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "base/array.h"
#include "base/macros.h"

struct range {
	uint32_t from, to;
};

struct character_set {
	bool negated;
	struct range *ranges;
	size_t n_ranges;
	wctype_t classes[12];
	size_t n_classes;
	/* The answers for ASCII, as most names are: with the case as it is, and ignoring it. */
	uint64_t ascii[2][2];
};

/* Returns (locale_t)0 if the system lacks it. It is made once and lives as long as the process. */
static locale_t utf8_locale(void)
{
	static locale_t locale;
	static bool tried;

	if (!tried)
		locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	tried = true;
	return locale;
}

bool characters_have_case(void)
{
	return utf8_locale();
}

/* ---- UTF-8 ------------------------------------------------------------------------------------
 */

uint32_t character_next(const char **at)
{
	/* The least code point that needs so many bytes more. */
	static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)*at;
	unsigned more = s[0] < 0x80 ? 0 : s[0] < 0xc0 ? 4 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
	uint32_t c = more == 0 ? s[0] : s[0] & (0x3fU >> more);

	for (unsigned i = 1; i <= more && more < 4; i++)
		if ((s[i] & 0xc0) == 0x80)
			c = c << 6 | (s[i] & 0x3f);
		else
			more = 4;
	if (more == 4 || s[0] >= 0xf8 || c < least[more] || c > 0x10ffff ||
	    (c >= 0xd800 && c <= 0xdfff)) {
		*at += 1;
		return CHARACTER_OF_BYTE + s[0];
	}
	*at += 1 + more;
	return c;
}

bool characters_are_valid(const char *text)
{
	while (*text)
		if (character_next(&text) >= CHARACTER_OF_BYTE)
			return false;
	return true;
}

bool character_is_word(uint32_t c)
{
	if (c < 0x80)
		return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' ||
		       (c >= 'a' && c <= 'z');
	return c < CHARACTER_OF_BYTE && utf8_locale() && iswalnum_l(c, utf8_locale());
}

/* The same character in lower or upper case. A letter may have a third form, such as the title case
 * of U+01C5, whose lower case is found by way of the upper one. */
static uint32_t lower(uint32_t c)
{
	if (c < 0x80 || c >= CHARACTER_OF_BYTE || !utf8_locale())
		return c >= 'A' && c <= 'Z' ? c + 32 : c;
	return towlower_l(towupper_l(c, utf8_locale()), utf8_locale());
}

static uint32_t upper(uint32_t c)
{
	if (c < 0x80 || c >= CHARACTER_OF_BYTE || !utf8_locale())
		return c >= 'a' && c <= 'z' ? c - 32 : c;
	return towupper_l(c, utf8_locale());
}

bool characters_fold(uint32_t a, uint32_t b)
{
	return a == b || lower(a) == lower(b);
}

/* ---- sets -------------------------------------------------------------------------------------
 */

static bool is_listed(const struct character_set *s, uint32_t c)
{
	for (size_t i = 0; i < s->n_ranges; i++)
		if (c >= s->ranges[i].from && c <= s->ranges[i].to)
			return true;
	for (size_t i = 0; i < s->n_classes && c < CHARACTER_OF_BYTE; i++)
		if (iswctype_l(c, s->classes[i], utf8_locale()))
			return true;
	return false;
}

static bool find(const struct character_set *s, uint32_t c, bool exact)
{
	bool listed =
		is_listed(s, c) || (!exact && (is_listed(s, lower(c)) || is_listed(s, upper(c))));

	return listed != s->negated;
}

bool character_set_has(const struct character_set *s, uint32_t c, bool exact)
{
	return c < 0x80 ? s->ascii[!exact][c / 64] >> c % 64 & 1 : find(s, c, exact);
}

static int range_add(struct character_set *s, uint32_t from, uint32_t to)
{
	struct range *r = array_add(&s->ranges, &s->n_ranges, sizeof(*r));

	if (!r)
		return -ENOMEM;
	*r = (struct range){ from, to };
	return from <= to ? 0 : -EINVAL;
}

/* Adds the class in [:name:], behind its colon; moves *at behind its ]. */
static int class_read(struct character_set *s, const char **at)
{
	const char *end = strstr(*at, ":]");
	char name[8];

	if (!end || s->n_classes == ELEMENTSOF(s->classes))
		return -EINVAL;
	if (!utf8_locale())
		return -EOPNOTSUPP;
	if (snprintf(name, sizeof(name), "%.*s", (int)(end - *at), *at) >= (int)sizeof(name))
		return -EINVAL;
	s->classes[s->n_classes] = wctype_l(name, utf8_locale());
	*at = end + 2;
	return s->classes[s->n_classes++] ? 0 : -EINVAL;
}

/* Reads a character that may begin or end a range. Returns 1 for [=c=], which is one character and
 * may do neither. */
static int bound_read(const char **at, enum set_syntax syntax, uint32_t *ret)
{
	char kind = (*at)[0] == '[' && ((*at)[1] == '.' || (*at)[1] == '=') ? (*at)[1] : '\0';

	if (kind)
		*at += 2;
	else if (syntax == SET_OF_GLOB && **at == '\\')
		*at += 1;
	if (**at == '\0')
		return -EINVAL;
	*ret = character_next(at);
	if (!kind)
		return 0;
	if ((*at)[0] != kind || (*at)[1] != ']')
		return -EINVAL;
	*at += 2;
	return kind == '=';
}

static int item_read(struct character_set *s, const char **at, enum set_syntax syntax, bool first)
{
	uint32_t from, to;
	int r, end;

	if ((*at)[0] == '[' && (*at)[1] == ':') {
		*at += 2;
		r = class_read(s, at);
		return r >= 0 && (*at)[0] == '-' && (*at)[1] != ']' ? -EINVAL : r;
	}
	/* A dash stands for itself at either end only. */
	if ((*at)[0] == '-' && !first && (*at)[1] != ']' && (*at)[1] != '-')
		return -EINVAL;
	r = bound_read(at, syntax, &from);
	if (r < 0)
		return r;
	if ((*at)[0] != '-' || (*at)[1] == ']')
		return range_add(s, from, from);
	*at += 1;
	end = r == 0 && !((*at)[0] == '[' && (*at)[1] == ':') ? bound_read(at, syntax, &to)
							      : -EINVAL;
	return end == 0 ? range_add(s, from, to) : end < 0 ? end : -EINVAL;
}

int character_set_read(struct character_set **ret, const char **at, enum set_syntax syntax)
{
	struct character_set *s = calloc(1, sizeof(*s));
	const char *from = *at + 1;
	int r = s ? 0 : -ENOMEM;

	if (r >= 0 && (*from == '^' || (syntax == SET_OF_GLOB && *from == '!'))) {
		s->negated = true;
		from++;
	}
	/* A bracket that comes first does not end the expression. */
	for (bool first = true; r >= 0 && (first || *from != ']'); first = false)
		r = *from ? item_read(s, &from, syntax, first) : -EINVAL;
	if (r < 0) {
		character_set_free(s);
		return r;
	}
	for (uint32_t c = 0; c < 0x80; c++) {
		s->ascii[0][c / 64] |= (uint64_t)find(s, c, true) << c % 64;
		s->ascii[1][c / 64] |= (uint64_t)find(s, c, false) << c % 64;
	}
	*at = from + 1;
	*ret = s;
	return 0;
}

struct character_set *character_set_free(struct character_set *s)
{
	if (s)
		free(s->ranges);
	free(s);
	return NULL;
}
