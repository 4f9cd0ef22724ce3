/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A table without borders, as systemctl's, printed by libsmartcols. What that library does not do
 * is done here: on a narrow terminal spare columns are left out, and the last column is cut to what
 * fits, a path at its beginning, with an ellipsis for what is gone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/macros.h"

struct table;

enum column_flags {
	COLUMN_RIGHT = 1 << 0, /* numbers */
	COLUMN_STATE = 1 << 1, /* coloured by what it says of a job */
	COLUMN_SPARE = 1 << 2, /* may be left out for the last one; from the left on */
	COLUMN_PATH = 1 << 3,  /* what is too long is cut at its beginning */
};

struct table_column {
	const char *title;
	unsigned flags;
};

/* A table of so many columns, of which it keeps copies. The caller frees it. Returns NULL if out of
 * memory. */
struct table *table_new(const struct table_column *columns, size_t n);

/* Accepts NULL. Returns NULL. */
struct table *table_free(struct table *t);

static inline void table_freep(struct table **t)
{
	*t = table_free(*t);
}
#define _cleanup_table_ _cleanup_(table_freep)

/* Appends a row: a text for each column, which is copied and passed through screen_line(). A
 * NULL text is one that there was no memory for. Returns 0 or -ENOMEM. */
int table_add(struct table *t, const char *const *cells);

/* Leaves a column out of the print. */
void table_hide(struct table *t, size_t column);

/* Leaves the titles out of the print. */
void table_hide_titles(struct table *t);

/* Prints the titles and all rows; nothing if there is no row. width: columns of the terminal, 0: no
 * limit. To be called once. Returns 0 or -ENOMEM. */
int table_print(struct table *t, FILE *out, unsigned width, bool colours);

/* How a job's or spool's state is coloured: an escape sequence, or "". */
const char *state_colour(const char *state);
