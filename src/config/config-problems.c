/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-problems.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/escape.h"

/* Somebody who has that many errors has given a wrong file. */
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

static void problems_put(struct problems *p, struct config_place at, char *text)
{
	struct problem *v = realloc(p->v, (p->n + 1) * sizeof(*v));

	if (!v) {
		p->out_of_memory = true;
		free(text);
		return;
	}
	p->v = v;
	p->v[p->n++] = (struct problem){ .at = at, .text = text };
}

void problems_add(struct problems *p, struct config_place at, const struct crumb *in,
		  const char *format, ...)
{
	char *text = NULL;
	size_t len;
	va_list ap;
	FILE *f;

	p->found = true;
	if (p->n >= PROBLEMS_MOST) {
		p->n_left_out++;
		return;
	}
	f = open_memstream(&text, &len);
	if (!f) {
		p->out_of_memory = true;
		return;
	}
	crumbs_print(f, in);
	va_start(ap, format);
	(void)vfprintf(f, format, ap);
	va_end(ap);
	if (fclose(f) == 0) {
		problems_put(p, at, text);
		return;
	}
	free(text);
	p->out_of_memory = true;
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

static void tell(config_complain_t complain, void *userdata, struct config_place at,
		 const char *text)
{
	struct config_error e = {
		.file = at.file, .line = at.line, .column = at.column, .text = text
	};

	if (complain)
		complain(&e, userdata);
}

void problems_tell(struct problems *p, config_complain_t complain, void *userdata)
{
	char more[64];

	if (p->n > 0)
		qsort(p->v, p->n, sizeof(p->v[0]), by_place);
	for (size_t i = 0; i < p->n; i++)
		tell(complain, userdata, p->v[i].at, p->v[i].text);
	if (p->n > 0 && p->n_left_out > 0) {
		(void)snprintf(more, sizeof(more), "%zu further errors are not shown",
			       p->n_left_out);
		tell(complain, userdata, (struct config_place){ .file = p->v[0].at.file }, more);
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
