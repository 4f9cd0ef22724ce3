/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "messages.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "screen.h"
#include "base/escape.h"
#include "base/units.h"

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
	safe = l->text ? screen_line(l->text) : NULL;
	if (safe)
		screen_wrap(l->to, safe, screen_columns(fileno(l->to)), /* indent= */ 0);
	else
		(void)fputc('\n', l->to);
	free(l->text);
	*l = (struct sentence){ 0 };
}

void complain(const char *what, const char *format, ...)
{
	_cleanup_free_ char *shown = what ? screen_name(what) : NULL;
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

static char outcome[1024];

void outcome_note(const char *format, ...)
{
	size_t len = strlen(outcome);
	va_list ap;

	if (len + 80 > sizeof(outcome)) {
		memcpy(outcome + len - 3, "...", sizeof("..."));
		return;
	}
	if (len > 0)
		len += (size_t)snprintf(outcome + len, sizeof(outcome) - len, "; ");
	va_start(ap, format);
	(void)vsnprintf(outcome + len, sizeof(outcome) - len, format, ap);
	va_end(ap);
}

const char *outcome_text(void)
{
	return outcome[0] ? outcome : NULL;
}

const char *entries_word(uint64_t n)
{
	return n == 1 ? "entry" : "entries";
}

/* A result that lacks some of its keys would be a lie: without memory there is none. What a
 * verb has changed stays changed. */
static void *allocate(size_t n)
{
	void *p = malloc(n);

	if (!p) {
		complain("reclaimctl", "out of memory");
		_exit(EXIT_FAILED);
	}
	return p;
}

/* Whether texts are for programs. */
static bool exact;

void json_init(enum json_mode mode)
{
	exact = mode != JSON_OFF;
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

/* Programs get UTF-8 as it is, whatever the locale. */
static json_t *text_make(const char *text, char *(*escape)(const char *s),
			 char *(*show)(const char *s))
{
	json_t *s = exact ? json_string(text) : NULL;

	if (!s) {
		_cleanup_free_ char *escaped = exact ? escape(text) : show(text);
		s = json_string(escaped ? escaped : "");
	}
	return s;
}

json_t *json_path(const char *path)
{
	return text_make(path, escape_name, screen_name);
}

json_t *json_words(const char *text)
{
	return text_make(text, escape_line, screen_line);
}

const char *json_text(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "";
}

uint64_t json_number(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_is_real(v) ? (uint64_t)json_real_value(v) : (uint64_t)json_integer_value(v);
}

bool counts_print(FILE *out, json_t *counts)
{
	bool any = false;
	const char *name;
	char n[28];
	json_t *v;

	json_object_foreach(counts, name, v) {
		if (json_integer_value(v) == 0)
			continue;
		(void)fprintf(out, "%s%s %s", any ? ", " : "",
			      count_format(n, sizeof(n), (uint64_t)json_integer_value(v)), name);
		any = true;
	}
	return any;
}

void config_error_print(const struct config_error *e)
{
	_cleanup_free_ char *file = screen_name(e->file), *text = screen_line(e->text);

	(void)fprintf(stderr, "%s:", file ? file : "?");
	if (e->line > 0)
		(void)fprintf(stderr, "%u:%u:", e->line, e->column);
	(void)fprintf(stderr, " %s%s\n", e->is_warning ? "warning: " : "", text ? text : "?");
}
