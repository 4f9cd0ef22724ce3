/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gathers text and writes it in pieces of many KiB. Ten thousand rows of a table are a hundred
 * thousand small texts, and the calls of stdio would take longer than the bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

/* .out is set, all else is zero. */
struct printer {
	FILE *out;
	size_t n;
	char v[KiB(16)];
};

/* When there is no room. */
void printer_put_slowly(struct printer *p, const char *text, size_t n);

static inline void printer_put(struct printer *p, const char *text, size_t n)
{
	if (n > sizeof(p->v) - p->n) {
		printer_put_slowly(p, text, n);
		return;
	}
	memcpy(p->v + p->n, text, n);
	p->n += n;
}

static inline void printer_text(struct printer *p, const char *text)
{
	printer_put(p, text, strlen(text));
}

static inline void printer_blanks(struct printer *p, size_t n)
{
	static const char spaces[] = "                                ";

	for (; n >= sizeof(spaces); n -= sizeof(spaces) - 1)
		printer_put(p, spaces, sizeof(spaces) - 1);
	printer_put(p, spaces, n);
}

void printer_number(struct printer *p, uint64_t n);

/* What is left; nothing is written without it. */
void printer_flush(struct printer *p);
