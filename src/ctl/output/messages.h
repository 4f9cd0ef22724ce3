/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaimctl says: errors on stderr, results on stdout. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/macros.h"
#include "config/config.h"
#include "modes.h"

/* "reclaimctl: WHAT: WHY" on stderr, in lines of a terminal's width. WHAT is a name
 * (util/escape.h); NULL: there is none. */
void complain(const char *what, const char *format, ...) _printf_(2, 3);

/* Notes what this process has changed, for outcome_text(): "job 12 was accepted". A change is a
 * fact even if standard output, where the result goes, is full. */
void outcome_note(const char *format, ...) _printf_(1, 2);

/* Returns all notes in one line, cut off if there are very many, or NULL if nothing was changed. */
const char *outcome_text(void);

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

/* Makes lack of memory while a JSON value is made end the process. With JSON_OFF the values are
 * what is printed for people, and texts in them are safe to show; so are they before it is called.
 */
void json_init(enum json_mode mode);

/* Prints and frees a JSON value as one line or indented, in ASCII; nothing for JSON_OFF. */
void json_print(json_t *v, enum json_mode mode);

/* A text of raw bytes from a filesystem: for programs as it is, where it is UTF-8; otherwise
 * escaped. */
json_t *json_path(const char *path);

/* The same of a text in which names are escaped already. */
json_t *json_words(const char *text);

/* A member of an object; "" or 0 where there is none. */
const char *json_text(const json_t *object, const char *key);
uint64_t json_number(const json_t *object, const char *key);

/* "2 held, 1 running": an object's numbers that are not 0. Returns whether there were any. */
bool counts_print(FILE *out, json_t *counts);
