/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "messages.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "screen.h"
#include "base/escape.h"

FILE *sentence_begin(struct sentence *l, FILE *to)
{
	*l = (struct sentence){ .to = to };
	l->stream = open_memstream(&l->text, &l->len);
	return l->stream ? l->stream : to;
}

void sentence_end(struct sentence *l)
{
	_cleanup_free_ char *safe = NULL;

	/* What there was memory for is said, whether it is all or not. */
	if (l->stream)
		(void)fclose(l->stream);
	safe = l->text ? escape_line(l->text) : NULL;
	if (safe)
		screen_wrap(l->to, safe, screen_columns(fileno(l->to)), /* indent= */ 0);
	else
		(void)fputc('\n', l->to);
	free(l->text);
	*l = (struct sentence){ 0 };
}

void complain(const char *what, const char *format, ...)
{
	_cleanup_free_ char *shown = what ? escape_name(what) : NULL;
	struct sentence line;
	FILE *out = sentence_begin(&line, stderr);
	va_list ap;

	flockfile(stderr);
	(void)fputs("reclaimctl: ", out);
	if (what)
		(void)fprintf(out, "%s: ", shown ? shown : "?");
	va_start(ap, format);
	(void)vfprintf(out, format, ap);
	va_end(ap);
	sentence_end(&line);
	funlockfile(stderr);
}

const char *entries_word(uint64_t n)
{
	return n == 1 ? "entry" : "entries";
}

/* A result that lacks some of its keys would be a lie: without memory there is none. Nothing is
 * lost by ending here, as such a verb changes nothing. */
static void *allocate(size_t n)
{
	void *p = malloc(n);

	if (!p) {
		complain("JSON", "out of memory");
		_exit(EXIT_FAILED);
	}
	return p;
}

void json_init(void)
{
	json_set_alloc_funcs(allocate, free);
}

void json_print(json_t *v, enum json_mode mode)
{
	if (v && mode != JSON_OFF) {
		(void)json_dumpf(v, stdout,
				 JSON_ENSURE_ASCII |
					 (mode == JSON_PRETTY ? JSON_INDENT(2) : JSON_COMPACT));
		(void)fputc('\n', stdout);
	}
	json_decref(v);
}

json_t *json_path(const char *path)
{
	json_t *s = json_string(path);

	if (!s) {
		_cleanup_free_ char *escaped = escape_name(path);
		s = json_string(escaped ? escaped : "");
	}
	return s;
}

void config_error_print(const struct config_error *e)
{
	_cleanup_free_ char *file = escape_name(e->file), *text = escape_line(e->text);

	(void)fprintf(stderr, "%s:", file ? file : "?");
	if (e->line > 0)
		(void)fprintf(stderr, "%u:%u:", e->line, e->column);
	(void)fprintf(stderr, " %s%s\n", e->is_warning ? "warning: " : "", text ? text : "?");
}
