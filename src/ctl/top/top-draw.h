/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The terminal that top draws on. */
#pragma once

#include <ncurses.h>
#include <stdbool.h>

#include "top-model.h"

struct top_view {
	size_t selected, first; /* among the jobs; the first that is on the screen */
	const char *message;    /* "": none */
	bool bad;               /* the message is about something that went wrong */
	bool asks;              /* it is a question */
};

/* Takes the terminal over, for curses. Returns 0, or -ENOTTY if it can do less than is needed. The
 * caller gives it back: endwin(), delscreen(). */
int top_screen_open(SCREEN **ret);

/* Draws everything; v->first is put so that the selected job is on the screen. */
void top_screen_draw(const struct top_model *m, struct top_view *v);
