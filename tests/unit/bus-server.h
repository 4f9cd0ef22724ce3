/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The D-Bus side of the daemon on a thread of its own, above a manager that keeps a few jobs in
 * memory and answers when it is told to: so the translation is tested by itself, with answers at
 * moments that a real manager gives them at only by chance. Tests talk to it as clients do.
 *
 * Jobs: 1 and 3 are root's, 2 is USER's; 3 is in the history, and is answered for later.
 *   Reload      tells of job 1 and job 2: new, changed, finished
 *   ResumeAll   answers what has been held back
 *   Pause       of job 1: is held back
 *   Settle      is held back */
#pragma once

#include <limits.h>
#include <systemd/sd-bus.h>

#include "base/macros.h"

#define USER 64998
#define GROUP 64997
#define TIMEOUT_USEC (20 * USEC_PER_SEC)

struct server;
struct operations;

/* With bus_address NULL: only the private socket. */
struct server *server_start(const char *bus_address);
/* What the last submit or change had in it, in words. Valid until the next call. */
const char *server_submitted(struct server *s);
const char *server_socket(const struct server *s);
/* Callbacks that are held back are called after the bus is freed. */
void server_stop(struct server *s);

/* Such a manager alone, for a bus of one's own, which is freed first. */
struct operations *server_operations_new(void);
void server_operations_free(struct operations *m);

/* The calling thread becomes USER (with GROUP as its only supplementary group), and root again. */
void become_user(void);
void become_root(void);

/* A connection to the private socket; NULL if it was closed at once. */
sd_bus *client_open(const struct server *s);
/* Calls a method of the manager or, with a path, of a job; returns the name of the error without
 * its prefix, or "" (static). ret may be NULL. */
const char *call(sd_bus *c, const char *path, const char *member, sd_bus_message **ret,
		 const char *types, ...);
/* The words of the last error of call. */
const char *call_error(void);
const char *send_message(sd_bus *c, sd_bus_message *m, sd_bus_message **ret);
