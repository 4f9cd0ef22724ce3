/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names from a filesystem are bytes chosen by anybody; this makes them safe to show. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns a malloc'ed copy of the len bytes at s, with everything that could move a cursor, fake a
 * line, reverse the reading direction or is not UTF-8 written as \n, \t, \\ or \xNN. Printable
 * UTF-8 stays as it is. Returns NULL only when memory is out. The caller frees it. */
char *escape_bytes(const char *s, size_t len);

/* The same for a NUL-terminated string. */
char *escape_name(const char *s);

/* How many bytes at its beginning are printable ASCII: in nearly all texts, all. */
size_t escape_span(const char *s);

/* Whether the string is UTF-8, which is all that a D-Bus string may be. */
bool utf8_is_valid(const char *s);
