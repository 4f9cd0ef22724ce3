/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaimctl says: errors on stderr, results on stdout. */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "base/macros.h"
#include "config/config.h"
#include "modes.h"

/* "reclaimctl: WHAT: WHY" on stderr, in lines of a terminal's width. WHAT is a name
 * (util/escape.h); NULL: there is none. */
void complain(const char *what, const char *format, ...) _printf_(2, 3);

/* "FILE:LINE:COLUMN: text" of what is wrong with a configuration, on standard error. */
void config_error_print(const struct config_error *e);

/* A sentence, made piece by piece and then printed as one line of what can be shown, on a terminal
 * broken at blanks. */
struct sentence {
	FILE *to, *stream;
	char *text;
	size_t len;
};

/* Returns the stream to write its pieces to: without memory `to` itself. */
FILE *sentence_begin(struct sentence *l, FILE *to);
void sentence_end(struct sentence *l);

/* "entry" or "entries", behind a number of them. */
const char *entries_word(uint64_t n);

/* Makes lack of memory while a JSON value is made end the process; called before any other use of
 * JSON, by verbs that change nothing. */
void json_init(void);

/* Prints and frees a JSON value as one line or indented, in ASCII; nothing for JSON_OFF. */
void json_print(json_t *v, enum json_mode mode);

/* A JSON string of raw bytes from a filesystem: escaped where it is not UTF-8. */
json_t *json_path(const char *path);
