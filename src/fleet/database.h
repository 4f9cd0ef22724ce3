/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The connection to the database: made and lost without waiting, on an event loop, one statement at
 * a time. It is not made again by itself. (To find the server's address alone may wait: that is the
 * resolver's, and this process has nothing better to do then.) */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <systemd/sd-event.h>

#include "parameters.h"

struct database;

struct database_events {
	/* It is there, and statements can be sent. */
	void (*on_connected)(void *userdata);
	/* It is gone, or could not be made; a statement under way has no result. The text is the
	 * library's or the server's, and not escaped. */
	void (*on_lost)(const char *text, void *userdata);
	/* The result of the statement; one that failed has PGRES_FATAL_ERROR. */
	void (*on_result)(const PGresult *result, void *userdata);
	/* A notice of a channel that this session listens to; where it comes from is not known. */
	void (*on_notice)(const char *payload, void *userdata);
};

/* What is said of a connection string that is none; NULL: it is one. malloc'ed, not escaped. */
char *database_string_check(const char *string);

/* Connects and waits for that, for programs that have nothing else to do. Returns a connection
 * whose status tells whether it is there; NULL: out of memory. */
PGconn *database_connect_now(const char *string, const char *name);

int database_new(struct database **ret, sd_event *event, const struct database_events *events,
		 void *userdata);
struct database *database_free(struct database *d);

/* Begins to connect; what was there before is closed. `name` is shown by the server, beside the
 * program's. on_connected or on_lost follows, from the event loop. */
void database_connect(struct database *d, const char *string, const char *name);

/* Closes it, without a word. */
void database_close(struct database *d);

/* Can a statement be sent now? */
bool database_is_idle(const struct database *d);

/* Sends one, which must be possible. on_result or on_lost follows, from the event loop. */
void database_send(struct database *d, const char *statement, const struct parameters *p);

/* Five characters that say what kind of error it is, or "". */
const char *database_error_code(const PGresult *result);
/* In one line of the server's, or "". */
const char *database_error_text(const PGresult *result);
