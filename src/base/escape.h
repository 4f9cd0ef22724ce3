/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names from a filesystem are bytes that any user may choose; this makes them safe to show. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "macros.h"

/* Returns a malloc'ed copy of the len bytes at s, with everything that could move a cursor, fake a
 * line, reverse the reading direction, be invisible or is not UTF-8 written as \n, \t, \\ or \xNN.
 * Printable UTF-8 stays as it is; no two names look alike. Returns NULL only when memory is out.
 * The caller frees it. */
char *escape_bytes(const char *s, size_t len);

/* The same for a NUL-terminated string. */
char *escape_name(const char *s);

/* The same for a text in which names may have been escaped already: backslashes stay, so that it
 * may be done any number of times. */
char *escape_line(const char *s);

/* Returns a malloc'ed copy of a text that is escaped already, with each byte that is not ASCII
 * written as \xNN: for a locale that cannot show it. Returns NULL when memory is out. */
char *escape_ascii(const char *s);

/* Whether there is nothing to escape but backslashes. */
bool text_is_safe(const char *s);

/* How many bytes at its beginning are printable ASCII: in nearly all texts, all. */
size_t escape_span(const char *s);

/* One line of printable UTF-8. Only the functions below make one: what takes it, be it a log, an
 * error's text or standard error, cannot be given text that has not been through them. */
#define SAFE_TEXT_SIZE 1200
struct safe_text {
	char line[SAFE_TEXT_SIZE];
};

/* As printf(3) does it, then escaped as by escape_line; what is too long ends in "...". Without
 * memory of its own. */
void safe_text_format(struct safe_text *t, const char *format, ...) _printf_(2, 3);
void safe_text_formatv(struct safe_text *t, const char *format, va_list ap) _printf_(2, 0);

/* "PROGRAM: LINE" on standard error, at once. */
void safe_text_print(const char *program, const struct safe_text *t);

/* What is wrong with an option, from what getopt_long(3) has returned with opterr 0, a colon
 * first in its letters, and values past UCHAR_MAX for long options. */
void safe_text_option(struct safe_text *t, int c, char *const *argv);
