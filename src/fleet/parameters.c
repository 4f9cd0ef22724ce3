/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "parameters.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

void parameters_done(struct parameters *p)
{
	if (p->array)
		(void)fclose(p->array);
	for (int i = 0; i < p->n; i++)
		free(p->owned[i]);
	*p = (struct parameters){ 0 };
}

void parameters_text(struct parameters *p, const char *text)
{
	assert(p->n < PARAMETERS_MOST && !p->array);
	p->v[p->n++] = text;
}

void parameters_number(struct parameters *p, int64_t n)
{
	assert(p->n < PARAMETERS_MOST && !p->array);
	if (asprintf(&p->owned[p->n], "%" PRIi64, n) < 0) {
		p->owned[p->n] = NULL;
		p->failed = true;
	}
	p->v[p->n] = p->owned[p->n];
	p->n++;
}

void parameters_array(struct parameters *p)
{
	assert(p->n < PARAMETERS_MOST && !p->array);
	p->array = open_memstream(&p->owned[p->n], &p->sizes[p->n]);
	p->n++;
	if (p->array)
		(void)putc('{', p->array);
	else
		p->failed = true;
}

/* The stream of the next element; NULL: out of memory. */
static FILE *element(struct parameters *p)
{
	/* Where the first one is, there is the bracket alone. */
	if (p->array && ftello(p->array) > 1)
		(void)putc(',', p->array);
	return p->array;
}

void parameters_add_text(struct parameters *p, const char *text)
{
	FILE *f = element(p);

	if (!f)
		return;
	(void)putc('"', f);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			(void)putc('\\', f);
		(void)putc(*text, f);
	}
	(void)putc('"', f);
}

void parameters_add_number(struct parameters *p, int64_t n)
{
	FILE *f = element(p);

	if (f)
		(void)fprintf(f, "%" PRIi64, n);
}

void parameters_add_bytes(struct parameters *p, const void *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *b = bytes;
	FILE *f = element(p);

	if (!f)
		return;
	(void)fputs("\"\\\\x", f);
	for (size_t i = 0; i < len; i++) {
		(void)putc(digits[b[i] >> 4], f);
		(void)putc(digits[b[i] & 15], f);
	}
	(void)putc('"', f);
}

void parameters_array_end(struct parameters *p)
{
	assert(p->n > 0);
	if (!p->array)
		return;
	(void)putc('}', p->array);
	if (fclose(p->array) != 0)
		p->failed = true;
	p->array = NULL;
	p->v[p->n - 1] = p->owned[p->n - 1];
}
