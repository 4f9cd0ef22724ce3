/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where results go: a terminal with colours and a width, through a pager if they are long, or a
 * file or pipe with neither. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define COLOUR_OFF "\033[0m"
#define COLOUR_BOLD "\033[1m"
#define COLOUR_UNDERLINE "\033[4m"
#define COLOUR_RED "\033[31m"
#define COLOUR_GREEN "\033[32m"
#define COLOUR_YELLOW "\033[33m"
#define COLOUR_BLUE "\033[34m"
#define COLOUR_GREY "\033[90m"

struct screen {
	unsigned width; /* columns, or 0: no limit */
	bool colours;
	FILE *pager; /* or NULL */
};

/* Standard error is a terminal that can draw a line again, which one of type "dumb" cannot. */
bool screen_redraws(void);

/* What the environment says of colours. */
bool screen_allows_colours(void);

/* Sets the locale's character set, and nothing else of it, from the environment. Once, before any
 * output. */
void screen_locale(void);

/* Return malloc'ed copies of a name or a line that the terminal can show, or NULL if memory is out:
 * escaped by escape_name() or escape_line(), and then, unless the locale has UTF-8, by
 * escape_ascii(). libsmartcols and ncurses must not get any other text: the former never returns if
 * the locale lacks a character. */
char *screen_name(const char *s);
char *screen_line(const char *s);

/* Looks at standard output. With `may_page`, starts a pager where systemctl would:
 * on a terminal, unless the pager is "cat" or "". Standard output goes to it from here on. */
void screen_open(struct screen *s, bool may_page);

/* Waits until the pager is left. Nothing may be printed any more. */
void screen_close(struct screen *s);

/* How many columns the terminal has that the descriptor is, or 0. */
unsigned screen_columns(int fd);

/* Prints a text that begins at column `indent`, and a newline. What is wider than `width` goes on
 * in further lines, below its beginning; it is broken at blanks only, so that paths stay whole.
 * 0: no limit. */
void screen_wrap(FILE *out, const char *text, size_t width, size_t indent);

/* Whether the terminal shows UTF-8, as its locale says. */
bool screen_is_utf8(void);

/* What stands for what was cut away, as the locale can show it. */
const char *screen_ellipsis(void);

/* How many columns a text takes. */
size_t screen_width(const char *text);

/* How many bytes of a text that is too wide are shown: as many as leave room for the ellipsis. */
size_t screen_cut(const char *text, size_t width);

/* The same where its end says more: how many bytes are left away at its beginning. */
size_t screen_skip(const char *text, size_t width);
