/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "output.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "screen.h"
#include "util/escape.h"

void complain(const char *what, const char *format, ...)
{
	_cleanup_free_ char *shown = what ? escape_name(what) : NULL, *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	FILE *out = f ? f : stderr; /* without memory it is said as it comes */
	va_list ap;

	flockfile(stderr);
	(void)fputs("reclaimctl: ", out);
	if (what)
		(void)fprintf(out, "%s: ", shown ? shown : "?");
	va_start(ap, format);
	(void)vfprintf(out, format, ap);
	va_end(ap);
	if (f && fclose(f) == 0)
		screen_wrap(stderr, text, screen_columns(STDERR_FILENO), /* indent= */ 0);
	else
		(void)fputc('\n', stderr);
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
		(void)json_dumpf(v, stdout, mode == JSON_PRETTY ? JSON_INDENT(2) : JSON_COMPACT);
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
