/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whose turn it is: which statement is sent next, when, and what happens while there is no
 * database. */
#pragma once

#include "companion-state.h"

/* Sends what is most urgent, if anything is, and its time has come; and has the event loop come
 * back when it is to come. After whatever may have changed that. */
void session_go_on(struct companion *c);

/* c->wakeup. */
int session_wakeup(sd_event_source *s, uint64_t usec, void *userdata);

/* The database is gone, and is tried again. */
void session_lose(struct companion *c, const char *why);
/* The same, as of struct database_events. */
void session_lost(const char *text, void *userdata);
/* It will not have this host, and is asked again later. */
void session_refuse(struct companion *c, const char *why);
