/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "output.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/escape.h"

void complain(const char *what, const char *format, ...)
{
	_cleanup_free_ char *shown = escape_name(what);
	va_list ap;

	flockfile(stderr);
	(void)fprintf(stderr, "reclaimctl: %s: ", shown ? shown : "?");
	va_start(ap, format);
	(void)vfprintf(stderr, format, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	funlockfile(stderr);
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
