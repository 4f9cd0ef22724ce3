/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A table without borders, as systemctl's: a header row, columns as wide as what is in them. On a
 * terminal the last column is cut to what fits, and a state may have a colour. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct table;

enum column_flags {
	COLUMN_RIGHT = 1 << 0,  /* numbers */
	COLUMN_HIDDEN = 1 << 1, /* left out of the print */
	COLUMN_STATE = 1 << 2,  /* coloured by what it says of a job */
	COLUMN_SPARE = 1 << 3,  /* may be left out for the last one; from the left on */
	COLUMN_PATH = 1 << 4,   /* what is too long is cut at its beginning */
};

/* Returns NULL if memory is out. Titles must outlive the table. */
struct table *table_new(const char *const *titles, const unsigned *flags, size_t columns);
struct table *table_free(struct table *t);

/* Appends one cell, row by row; text is copied. What is not printable must have been escaped.
 * Returns 0 or -ENOMEM. */
int table_add(struct table *t, const char *text);
/* The same with a text that outlives the table, and is not copied. */
int table_add_lasting(struct table *t, const char *text);
/* The same with one that is known to be printable ASCII, `len` of it. */
int table_add_ascii(struct table *t, const char *text, size_t len);

void table_hide(struct table *t, size_t column);

/* width 0: no limit. */
void table_print(struct table *t, FILE *out, unsigned width, bool colours);

/* How a job's state is coloured: an escape sequence, or "". */
const char *state_colour(const char *state);
