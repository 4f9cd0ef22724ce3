/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The terminal that top draws on. */
#pragma once

#include <stdbool.h>

#include "top-model.h"

struct top_view {
	size_t selected, first; /* among the jobs; the first that is on the screen */
	const char *message;    /* "": none */
	bool bad;               /* the message is about something that went wrong */
	bool asks;              /* it is a question */
};

struct top_screen;

/* Takes the terminal over. Returns 0 or -ENOTTY, if it can do less than is needed. */
int top_screen_open(struct top_screen **ret);
/* Gives it back as it was. NULL is accepted; returns NULL. */
struct top_screen *top_screen_close(struct top_screen *s);

/* A key of curses (KEY_DOWN, 'q'), or negative if none was pressed. */
int top_screen_key(struct top_screen *s);

/* Draws everything; v->first is put so that the selected job is on the screen. */
void top_screen_draw(struct top_screen *s, const struct top_model *m, struct top_view *v);
