/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "table.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "screen.h"
#include "util/macros.h"

#define COLUMNS_MOST 16

/* Cells are many and small: they are kept in blocks. */
#define BLOCK_SIZE KiB(64)

struct block {
	struct block *next;
	size_t used, size;
	char text[];
};

struct cell {
	const char *text;
	size_t width; /* in columns */
};

struct table {
	struct block *blocks; /* the one that is being filled comes first */
	struct cell titles[COLUMNS_MOST];
	unsigned flags[COLUMNS_MOST];
	size_t columns;
	struct cell *cells;
	size_t n, cap;
};

struct table *table_new(const char *const *titles, const unsigned *flags, size_t columns)
{
	struct table *t = columns <= COLUMNS_MOST ? calloc(1, sizeof(*t)) : NULL;

	if (!t)
		return NULL;
	t->columns = columns;
	for (size_t c = 0; c < columns; c++)
		t->titles[c] = (struct cell){ titles[c], screen_width(titles[c]) };
	memcpy(t->flags, flags, columns * sizeof(flags[0]));
	return t;
}

struct table *table_free(struct table *t)
{
	if (!t)
		return NULL;
	while (t->blocks) {
		struct block *b = t->blocks;

		t->blocks = b->next;
		free(b);
	}
	free(t->cells);
	free(t);
	return NULL;
}

static char *keep(struct table *t, const char *text)
{
	size_t size = strlen(text) + 1;
	struct block *b = t->blocks;

	if (!b || b->size - b->used < size) {
		size_t room = MAX(size, (size_t)BLOCK_SIZE);

		b = malloc(sizeof(*b) + room);
		if (!b)
			return NULL;
		*b = (struct block){ .next = t->blocks, .size = room };
		t->blocks = b;
	}
	b->used += size;
	return memcpy(b->text + b->used - size, text, size);
}

int table_add(struct table *t, const char *text)
{
	char *copy;

	if (t->n == t->cap) {
		size_t cap = MAX(t->cap * 2, t->columns * 8);
		struct cell *cells = reallocarray(t->cells, cap, sizeof(*cells));

		if (!cells)
			return -ENOMEM;
		t->cells = cells;
		t->cap = cap;
	}
	copy = keep(t, text);
	if (!copy)
		return -ENOMEM;
	t->cells[t->n++] = (struct cell){ copy, screen_width(copy) };
	return 0;
}

void table_hide(struct table *t, size_t column)
{
	t->flags[column] |= COLUMN_HIDDEN;
}

/* The last column that is shown. */
static size_t last_shown(const struct table *t)
{
	size_t last = 0;

	for (size_t c = 0; c < t->columns; c++)
		if (!(t->flags[c] & COLUMN_HIDDEN))
			last = c;
	return last;
}

static void widths_find(const struct table *t, size_t *widths)
{
	for (size_t c = 0; c < t->columns; c++) {
		widths[c] = t->titles[c].width;
		for (size_t i = c; i < t->n; i += t->columns)
			widths[c] = MAX(widths[c], t->cells[i].width);
	}
}

/* The last column gets what the others leave of the line. */
static void last_limit(const struct table *t, size_t *widths, unsigned width)
{
	size_t last = last_shown(t), used = 0;

	for (size_t c = 0; c < last; c++)
		if (!(t->flags[c] & COLUMN_HIDDEN))
			used += widths[c] + 1;
	if (width > used + 8)
		widths[last] = MIN(widths[last], width - used);
}

static void blanks(FILE *out, size_t n)
{
	static const char spaces[] = "                                ";

	for (; n >= sizeof(spaces); n -= sizeof(spaces) - 1)
		(void)fputs(spaces, out);
	(void)fwrite(spaces, 1, n, out);
}

static void cell_print(FILE *out, const struct cell *cell, size_t width, bool right, bool last)
{
	size_t lacks = cell->width < width ? width - cell->width : 0;

	if (right)
		blanks(out, lacks);
	if (cell->width <= width)
		(void)fputs(cell->text, out);
	else
		screen_print(out, cell->text, width);
	if (!right && !last)
		blanks(out, lacks);
}

/* One row; `cells` may be the titles. */
static void row_print(const struct table *t, FILE *out, const struct cell *cells,
		      const size_t *widths, const char *style, bool colours)
{
	size_t last = last_shown(t);

	for (size_t c = 0; c <= last; c++) {
		const char *colour = style;

		if (t->flags[c] & COLUMN_HIDDEN)
			continue;
		if (!style)
			colour = t->flags[c] & COLUMN_STATE ? state_colour(cells[c].text) : "";
		if (colours)
			(void)fputs(colour, out);
		cell_print(out, &cells[c], widths[c], t->flags[c] & COLUMN_RIGHT, c == last);
		if (colours && colour[0])
			(void)fputs(COLOUR_OFF, out);
		if (c == last)
			continue;
		if (colours && style)
			(void)fprintf(out, "%s %s", style, COLOUR_OFF);
		else
			(void)fputc(' ', out);
	}
	(void)fputc('\n', out);
}

void table_print(const struct table *t, FILE *out, unsigned width, bool colours)
{
	size_t widths[COLUMNS_MOST] = { 0 };

	widths_find(t, widths);
	if (width > 0)
		last_limit(t, widths, width);
	row_print(t, out, t->titles, widths, COLOUR_UNDERLINE, colours);
	for (size_t i = 0; i + t->columns <= t->n; i += t->columns)
		row_print(t, out, t->cells + i, widths, NULL, colours);
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
