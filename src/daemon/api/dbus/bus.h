/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The API on D-Bus: conf/org.reclaimd1.xml, on the system bus as org.reclaimd1 and, with the same
 * objects, on a private socket that needs no bus. And Varlink (varlink.h) shares its
 * sockets' ways, its quotas and its views.
 *
 *   bus.c           opens and closes all of it
 *   bus-system.c    the connection to the system bus, made again whenever it is lost
 *   bus-private.c   what is spoken on the private socket
 *   bus-socket.c    a socket of ours
 *   proxy-start.c   clients that have connected to it, and the process in between
 *   bus-link.c      one connection of either kind
 *   bus-request.c   one method call, from the message to its answer
 *   bus-polkit.c    what takes more than the caller's own authority
 *   bus-arguments.c what is in a message: names, descriptors, options
 *   bus-fields.c    the fields of objects, written into messages
 *   bus-manager.c, bus-submit.c, bus-list.c, bus-job.c, bus-views.c   the objects
 *   bus-signals.c   what is sent to clients that listen
 *   bus-subscribe.c what is sent to those that follow all jobs they may see
 *   bus-quota.c     what one user may have open
 *   bus-units.c     units that the service manager is asked to start
 *   caller.c        credentials of callers
 *
 * Everything happens on the event loop, and nothing in it blocks; the daemon lives whatever becomes
 * of the bus, and starts without one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "daemon/spools/spool.h"

struct bus;
struct job_record;
struct operations;

struct bus_options {
	/* Path of the private socket; NULL: none. Taken over from systemd if that listens there. */
	const char *socket;
	const char *proxy_program; /* path of reclaim-worker, or what worker_program_pin gave */
	bool no_bus;
	const char *bus_address; /* NULL: the system bus */
	/* Fills at most n views; returns how many spools there are. NULL: none. */
	size_t (*spools)(struct spool_view *views, size_t n, void *userdata);
	void *userdata;
};

/* The sockets' paths are copied; other strings and what the callbacks need must live as long as the
 * bus. Returns 0 or a negative errno:
 * that of making a socket (-EADDRINUSE: another daemon answers there), -ENOMEM. A message
 * bus that is not there is no error: it is waited for. */
int bus_new(struct bus **ret, struct operations *operations, sd_event *e,
	    const struct bus_options *o);

/* Has the service manager start a unit, as the hook of a job, and logs it if that cannot be. */
void bus_start_unit(struct bus *b, const char *unit, const struct job_record *r);

/* Ends all connections. Operations that are not answered yet may still answer later. NULL is
 * accepted; returns NULL. */
struct bus *bus_free(struct bus *b);
