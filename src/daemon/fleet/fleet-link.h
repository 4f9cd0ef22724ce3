/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaim-fleet, the program that speaks to the database, seen from the daemon: started, spoken
 * with, and started again when it has ended, at once at first, then less and less often. Nothing
 * of the daemon waits for it: what it does not take is kept for a while, and one that takes nothing
 * is ended.
 *
 *   it runs            began: the first message is JOIN
 *   a message          report
 *   it has ended       ended; began comes again
 */
#pragma once

#include <systemd/sd-event.h>

#include "wire/fleet-messages.h"

struct fleet_link;

struct fleet_link_callbacks {
	void (*began)(void *userdata);
	/* A message, whose type is in->type: read with fleet_get. Returns 0, or -EBADMSG if it
	 * makes no sense: then the program is ended. */
	int (*report)(struct wire_in *in, void *userdata);
	/* In words. After `began` only, or if it cannot be started. */
	void (*ended)(const char *how, void *userdata);
};

/* Starts it in the next turn of the loop. program (a path) and callbacks outlive it. Returns 0 or a
 * negative errno. */
int fleet_link_new(struct fleet_link **ret, sd_event *event, const char *program,
		   const struct fleet_link_callbacks *callbacks, void *userdata);
/* Ends the program. Also from a callback. NULL is accepted; returns NULL. */
struct fleet_link *fleet_link_free(struct fleet_link *link);

/* A message for it: filled with fleet_put and fleet_put_item, then sent. NULL: it does not run, or
 * memory is out, and then nothing is sent. One at a time. */
struct wire_out *fleet_link_say(struct fleet_link *link, enum fleet_request type);
void fleet_link_send(struct fleet_link *link);
