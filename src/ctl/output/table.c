/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "table.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "printer.h"
#include "screen.h"

#define COLUMNS_MOST 16

/* Cells are many and small: they are kept in blocks. */
#define BLOCK_SIZE KiB(64)

/* With less room than this for the last column, others are left out; with less than that, lines are
 * longer than the terminal is wide. */
#define LAST_LEAST 16U
#define ROOM_LEAST 8U

struct block {
	struct block *next;
	size_t used, size;
	char text[];
};

struct cell {
	const char *text;
	unsigned len, width; /* in bytes, in columns */
};

struct table {
	struct block *blocks; /* the one that is being filled comes first */
	struct cell titles[COLUMNS_MOST];
	unsigned flags[COLUMNS_MOST], widths[COLUMNS_MOST];
	unsigned room[COLUMNS_MOST]; /* what is printed is no wider */
	size_t columns, at;          /* at: the column of the next cell */
	struct cell *cells;
	size_t n, cap;
};

static struct cell cell_of(const char *text, size_t len)
{
	return (struct cell){ text, (unsigned)len, (unsigned)screen_width(text) };
}

struct table *table_new(const char *const *titles, const unsigned *flags, size_t columns)
{
	struct table *t = columns <= COLUMNS_MOST ? calloc(1, sizeof(*t)) : NULL;

	if (!t)
		return NULL;
	t->columns = columns;
	for (size_t c = 0; c < columns; c++) {
		t->titles[c] = cell_of(titles[c], strlen(titles[c]));
		t->widths[c] = t->titles[c].width;
	}
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

static const char *keep(struct table *t, const char *text, size_t len)
{
	struct block *b = t->blocks;

	if (!b || b->size - b->used <= len) {
		size_t room = MAX(len + 1, (size_t)BLOCK_SIZE);

		b = malloc(sizeof(*b) + room);
		if (!b)
			return NULL;
		*b = (struct block){ .next = t->blocks, .size = room };
		t->blocks = b;
	}
	b->used += len + 1;
	return memcpy(b->text + b->used - len - 1, text, len + 1);
}

static int append(struct table *t, struct cell cell)
{
	if (t->n == t->cap) {
		size_t cap = MAX(t->cap * 2, t->columns * 8);
		struct cell *cells = reallocarray(t->cells, cap, sizeof(*cells));

		if (!cells)
			return -ENOMEM;
		t->cells = cells;
		t->cap = cap;
	}
	t->cells[t->n++] = cell;
	t->widths[t->at] = MAX(t->widths[t->at], cell.width);
	t->at = (t->at + 1) % t->columns;
	return 0;
}

/* The cell of the row above, or NULL. */
static const struct cell *above(const struct table *t)
{
	return t->cells && t->n >= t->columns ? &t->cells[t->n - t->columns] : NULL;
}

int table_add(struct table *t, const char *text)
{
	const struct cell *same = above(t);
	const char *copy;
	size_t len;

	/* Users, sizes, times: most say what the one above says. */
	if (same && strcmp(same->text, text) == 0)
		return append(t, *same);
	len = strlen(text);
	copy = keep(t, text, len);
	return copy ? append(t, cell_of(copy, len)) : -ENOMEM;
}

int table_add_lasting(struct table *t, const char *text)
{
	const struct cell *same = above(t);

	return append(t, same && same->text == text ? *same : cell_of(text, strlen(text)));
}

int table_add_ascii(struct table *t, const char *text, size_t len)
{
	return append(t, (struct cell){ text, (unsigned)len, (unsigned)len });
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

/* Where the last column begins. */
static unsigned last_begins(const struct table *t)
{
	size_t last = last_shown(t);
	unsigned used = 0;

	for (size_t c = 0; c < last; c++)
		if (!(t->flags[c] & COLUMN_HIDDEN))
			used += t->widths[c] + 1;
	return used;
}

/* The last column gets what the others leave of the line. */
static void fit(struct table *t, unsigned width)
{
	size_t last = last_shown(t);

	for (size_t c = 0; c < t->columns; c++)
		if (t->flags[c] & COLUMN_SPARE &&
		    width < last_begins(t) + MIN(t->widths[last], LAST_LEAST))
			table_hide(t, c);
	if (width > last_begins(t) + ROOM_LEAST)
		t->room[last] = MIN(t->widths[last], width - last_begins(t));
}

/* With what is between it and the next cell. */
static void cell_print(struct printer *p, const struct cell *cell, unsigned width, unsigned flags,
		       bool last)
{
	size_t lacks = cell->width < width ? width - cell->width : 0;

	if (flags & COLUMN_RIGHT) {
		printer_blanks(p, lacks);
		lacks = 0;
	}
	if (cell->width <= width) {
		printer_put(p, cell->text, cell->len);
	} else if (flags & COLUMN_PATH) {
		printer_text(p, screen_ellipsis());
		printer_text(p, cell->text + screen_skip(cell->text, width));
	} else {
		printer_put(p, cell->text, screen_cut(cell->text, width));
		printer_text(p, screen_ellipsis());
	}
	if (!last)
		printer_blanks(p, lacks + 1);
}

/* One row; `cells` may be the titles. */
static void row_print(const struct table *t, struct printer *p, const struct cell *cells,
		      size_t last, const char *style, bool colours)
{
	for (size_t c = 0; c <= last; c++) {
		const char *colour = "";

		if (t->flags[c] & COLUMN_HIDDEN)
			continue;
		if (colours && style)
			colour = style;
		else if (colours && t->flags[c] & COLUMN_STATE)
			colour = state_colour(cells[c].text);
		if (colour[0])
			printer_text(p, colour);
		cell_print(p, &cells[c], t->room[c], t->flags[c], c == last);
		if (colour[0])
			printer_text(p, COLOUR_OFF);
	}
	printer_put(p, "\n", 1);
}

void table_print(struct table *t, FILE *out, unsigned width, bool colours)
{
	struct printer p = { .out = out };
	size_t last;

	memcpy(t->room, t->widths, sizeof(t->room));
	if (width > 0)
		fit(t, width);
	last = last_shown(t);
	row_print(t, &p, t->titles, last, COLOUR_UNDERLINE, colours);
	for (size_t i = 0; i + t->columns <= t->n; i += t->columns)
		row_print(t, &p, t->cells + i, last, NULL, colours);
	printer_flush(&p);
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
