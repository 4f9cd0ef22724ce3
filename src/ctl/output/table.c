/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "table.h"

#include <assert.h>
#include <errno.h>
#include <libsmartcols.h>
#include <stdlib.h>
#include <string.h>

#include "screen.h"
#include "base/macros.h"

#define COLUMNS_MOST 16

/* With less room than this for the last column, spare ones are left out; with less than that, lines
 * are longer than the terminal is wide. */
#define LAST_LEAST 16U
#define ROOM_LEAST 8U

struct table {
	struct libscols_table *rows;
	size_t columns;
	unsigned flags[COLUMNS_MOST];
	size_t widths[COLUMNS_MOST];
	bool hidden[COLUMNS_MOST];
};

struct table *table_new(const struct table_column *columns, size_t n)
{
	struct table *t = calloc(1, sizeof(*t));

	assert(n <= COLUMNS_MOST);
	if (!t)
		return NULL;
	t->rows = scols_new_table();
	for (; t->rows && t->columns < n; t->columns++) {
		const struct table_column *c = &columns[t->columns];
		struct libscols_column *made = scols_table_new_column(
			t->rows, c->title, 0, c->flags & COLUMN_RIGHT ? SCOLS_FL_RIGHT : 0);

		if (!made ||
		    scols_cell_set_color(scols_column_get_header(made), COLOUR_UNDERLINE) < 0)
			return table_free(t);
		t->flags[t->columns] = c->flags;
		t->widths[t->columns] = screen_width(c->title);
	}
	if (!t->rows)
		return table_free(t);
	/* Texts are escaped and cut here. */
	(void)scols_table_enable_noencoding(t->rows, 1);
	(void)scols_table_set_termforce(t->rows, SCOLS_TERMFORCE_NEVER);
	return t;
}

struct table *table_free(struct table *t)
{
	if (t)
		scols_unref_table(t->rows);
	free(t);
	return NULL;
}

int table_add(struct table *t, const char *const *cells)
{
	struct libscols_line *line = scols_table_new_line(t->rows, NULL);

	if (!line)
		return -ENOMEM;
	for (size_t c = 0; c < t->columns; c++) {
		char *text = cells[c] ? screen_line(cells[c]) : NULL;
		const char *colour;

		if (!text)
			return -ENOMEM;
		t->widths[c] = MAX(t->widths[c], screen_width(text));
		if (scols_line_refer_data(line, c, text) < 0) {
			free(text);
			return -ENOMEM;
		}
		colour = t->flags[c] & COLUMN_STATE ? state_colour(cells[c]) : "";
		if (colour[0] && scols_cell_set_color(scols_line_get_cell(line, c), colour) < 0)
			return -ENOMEM;
	}
	return 0;
}

void table_hide(struct table *t, size_t column)
{
	t->hidden[column] = true;
	(void)scols_column_set_flags(scols_table_get_column(t->rows, column), SCOLS_FL_HIDDEN);
}

/* The last column that is shown. */
static size_t last_shown(const struct table *t)
{
	size_t last = t->columns - 1;

	while (last > 0 && t->hidden[last])
		last--;
	return last;
}

/* How many columns of the terminal are left of the column `last`. */
static size_t width_before(const struct table *t, size_t last)
{
	size_t used = 0;

	for (size_t c = 0; c < last; c++)
		used += t->hidden[c] ? 0 : t->widths[c] + 1;
	return used;
}

static int cell_cut(struct libscols_cell *cell, size_t width, bool at_beginning)
{
	const char *text = scols_cell_get_data(cell);
	char *cut;
	int r;

	if (screen_width(text) <= width)
		return 0;
	r = at_beginning
		    ? asprintf(&cut, "%s%s", screen_ellipsis(), text + screen_skip(text, width))
		    : asprintf(&cut, "%.*s%s", (int)screen_cut(text, width), text,
			       screen_ellipsis());
	if (r < 0)
		return -ENOMEM;
	return scols_cell_refer_data(cell, cut); /* which owns it now */
}

/* Gives the last column what the others leave of the line. */
static int fit(struct table *t, size_t width)
{
	size_t last = last_shown(t), before;
	int r = 0;

	for (size_t c = 0; c < last; c++)
		if (t->flags[c] & COLUMN_SPARE &&
		    width < width_before(t, last) + MIN(t->widths[last], LAST_LEAST))
			table_hide(t, c);
	before = width_before(t, last);
	if (width <= before + ROOM_LEAST)
		return 0;
	for (size_t i = 0; r >= 0 && i < scols_table_get_nlines(t->rows); i++)
		r = cell_cut(scols_line_get_cell(scols_table_get_line(t->rows, i), last),
			     width - before, t->flags[last] & COLUMN_PATH);
	return r;
}

void table_hide_titles(struct table *t)
{
	(void)scols_table_enable_noheadings(t->rows, 1);
}

int table_print(struct table *t, FILE *out, unsigned width, bool colours)
{
	if (width > 0 && fit(t, width) < 0)
		return -ENOMEM;
	(void)scols_table_enable_colors(t->rows, colours);
	(void)scols_table_set_stream(t->rows, out);
	return scols_print_table(t->rows) < 0 ? -ENOMEM : 0;
}

const char *state_colour(const char *state)
{
	static const struct {
		const char *state, *colour;
	} colours[] = {
		{ "running", COLOUR_GREEN },  { "failed", COLOUR_RED },
		{ "partial", COLOUR_YELLOW }, { "held", COLOUR_BLUE },
		{ "paused", COLOUR_YELLOW },  { "done", COLOUR_GREY },
		{ "cancelled", COLOUR_GREY }, { "restored", COLOUR_GREY },
		{ "watching", COLOUR_GREEN }, { "refused", COLOUR_RED },
		{ "absent", COLOUR_YELLOW },
	};

	for (size_t i = 0; i < ELEMENTSOF(colours); i++)
		if (strcmp(colours[i].state, state) == 0)
			return colours[i].colour;
	return "";
}
