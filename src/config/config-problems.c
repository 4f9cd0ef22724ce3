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

char *problems_quote(const char *found)
{
	size_t len = strnlen(found, QUOTED_MOST + 1);
	char *escaped, *cut = NULL;

	if (len <= QUOTED_MOST)
		return escape_name(found);
	for (len = QUOTED_MOST; len > 0 && ((unsigned char)found[len] & 0xc0) == 0x80; len--)
		;
	escaped = escape_bytes(found, len);
	if (escaped && asprintf(&cut, "%s...", escaped) < 0)
		cut = NULL;
	free(escaped);
	return cut;
}

static void crumbs_print(FILE *f, const struct crumb *in)
{
	_cleanup_free_ char *key = NULL;

	if (!in)
		return;
	crumbs_print(f, in->up);
	key = problems_quote(in->key);
	(void)fprintf(f, "%s: ", key ? key : "?");
}

void problems_put(struct problems *p, bool is_warning, struct config_place at,
		  const struct crumb *in, const char *format, ...)
{
	_cleanup_free_ char *raw = NULL;
	char *text = NULL;
	struct problem *v = NULL;
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
	if (text)
		v = array_add(&p->v, &p->n, sizeof(*v));
	if (!v) {
		p->out_of_memory = true;
		free(text);
		return;
	}
	*v = (struct problem){ .at = at, .text = text, .is_warning = is_warning };
}

static int by_place(const void *a, const void *b)
{
	const struct problem *x = a, *y = b;
	int files = strcmp(x->at.file, y->at.file);

	if (files != 0)
		return files;
	if (x->at.line != y->at.line)
		return x->at.line < y->at.line ? -1 : 1;
	if (x->at.column != y->at.column)
		return x->at.column < y->at.column ? -1 : 1;
	return strcmp(x->text, y->text);
}

static void tell(config_complain_t complain, void *userdata, const struct problem *p)
{
	struct config_error e = { .file = p->at.file,
				  .line = p->at.line,
				  .column = p->at.column,
				  .is_warning = p->is_warning,
				  .text = p->text };

	if (complain)
		complain(&e, userdata);
}

void problems_tell(struct problems *p, config_complain_t complain, void *userdata)
{
	char more[64];

	if (p->n > 0)
		qsort(p->v, p->n, sizeof(p->v[0]), by_place);
	for (size_t i = 0; i < p->n; i++)
		tell(complain, userdata, &p->v[i]);
	if (p->n > 0 && p->n_left_out > 0) {
		struct problem left = { .at = { .file = p->v[0].at.file }, .text = more };

		(void)snprintf(more, sizeof(more), "%zu further %s are not shown", p->n_left_out,
			       p->found ? "errors" : "warnings");
		left.is_warning = !p->found;
		tell(complain, userdata, &left);
	}
	problems_done(p);
}

void problems_done(struct problems *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].text);
	free(p->v);
	p->v = NULL;
	p->n = p->n_left_out = 0;
}
