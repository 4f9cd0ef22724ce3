/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-problems.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/macros.h"

/* A file with that many errors is a wrong file. */
#define PROBLEMS_MOST 100
/* What of a value is shown. */
#define QUOTED_MOST 60

char *problems_quote(const char *found, char buf[static QUOTE_SIZE])
{
	size_t len = strnlen(found, QUOTED_MOST + 1);
	bool cut = len > QUOTED_MOST;
	_cleanup_free_ char *escaped = NULL;

	for (len -= cut; cut && len > 0 && ((unsigned char)found[len] & 0xc0) == 0x80; len--)
		;
	escaped = escape_bytes(found, len);
	(void)snprintf(buf, QUOTE_SIZE, "%s%s", escaped ? escaped : "?", cut ? "..." : "");
	return buf;
}

static void crumbs_print(FILE *f, const struct crumb *in)
{
	char key[QUOTE_SIZE];

	if (!in)
		return;
	crumbs_print(f, in->up);
	(void)fprintf(f, "%s: ", problems_quote(in->key, key));
}

void problems_put(struct problems *p, bool is_warning, struct config_place at,
		  const struct crumb *in, const char *format, ...)
{
	struct config_error *v = NULL;
	_cleanup_free_ char *raw = NULL;
	char *text = NULL;
	size_t len;
	va_list ap;
	FILE *f;

	p->found = p->found || !is_warning;
	if (p->n >= PROBLEMS_MOST) {
		p->n_left_out++;
		return;
	}
	f = open_memstream(&raw, &len);
	if (f) {
		crumbs_print(f, in);
		va_start(ap, format);
		(void)vfprintf(f, format, ap);
		va_end(ap);
		text = fclose(f) == 0 ? escape_line(raw) : NULL;
	}
	v = text ? array_add(&p->v, &p->n, sizeof(*v)) : NULL;
	if (!v) {
		p->out_of_memory = true;
		free(text);
		return;
	}
	*v = (struct config_error){ at.file, at.line, at.column, is_warning, text };
}

static int by_place(const void *a, const void *b)
{
	const struct config_error *x = a, *y = b;
	int r = strcmp(x->file, y->file);

	r = r != 0 ? r : (int)(x->line > y->line) - (int)(x->line < y->line);
	r = r != 0 ? r : (int)(x->column > y->column) - (int)(x->column < y->column);
	return r != 0 ? r : strcmp(x->text, y->text);
}

void problems_tell(struct problems *p, config_complain_t complain, void *userdata)
{
	char more[64];

	if (p->n > 0)
		qsort(p->v, p->n, sizeof(p->v[0]), by_place);
	for (size_t i = 0; i < p->n && complain; i++)
		complain(&p->v[i], userdata);
	if (p->n > 0 && p->n_left_out > 0 && complain) {
		(void)snprintf(more, sizeof(more), "%zu further %s are not shown", p->n_left_out,
			       p->found ? "errors" : "warnings");
		complain(&(struct config_error){ p->v[0].file, 0, 0, !p->found, more }, userdata);
	}
	problems_done(p);
}

void problems_done(struct problems *p)
{
	for (size_t i = 0; i < p->n; i++)
		free((char *)p->v[i].text);
	free(p->v);
	p->v = NULL;
	p->n = p->n_left_out = 0;
}
