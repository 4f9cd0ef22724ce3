/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The way to the daemon: the system bus, or its private socket. Says itself, once, what goes wrong;
 * the callers only pass the exit status on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>

#include "client/reach.h"
#include "options.h"
#include "base/macros.h"

#define MANAGER_PATH "/org/reclaimd1"
#define MANAGER_INTERFACE "org.reclaimd1.Manager"
#define JOB_INTERFACE "org.reclaimd1.Job"
#define SPOOL_INTERFACE "org.reclaimd1.Spool"
#define DEVICE_INTERFACE "org.reclaimd1.Device"

/* Most descriptors in one message. The kernel's limit is 253. The daemon takes descriptors on its
 * sockets only, never on a message bus. */
#define SOCKET_FDS_MOST 240U

struct client {
	struct reach way;
	uint64_t deadline_usec; /* until when the last call's answer is waited for */
	pid_t agent;            /* that asks for a password at this terminal, or 0 */
	/* Calls that fail because the daemon has ended or is about to return CLIENT_LOST and say
	 * nothing, and start none. For verbs that only ask, and can ask again. */
	bool outlives;
	/* What is refused is called for once more, and a person may be asked whether it may be
	 * done: at this terminal, if the session has no other way. */
	bool asks;
	bool hushed; /* calls that fail say nothing: for what can be done without */
};

/* Connects. Where a machine is given, only on its system bus; where a runtime directory is, only to
 * the socket in it; otherwise to the bus, or
 * the socket where there is no bus or no daemon on it. socket_first: the other way round, for calls
 * that pass descriptors, and for long answers, which then go through one process less.
 * Returns 0, or EXIT_NO_DAEMON. */
int client_open(struct client **ret, const struct options *o, bool socket_first);

/* The same for verbs that work without a daemon, too. Returns NULL, and says and starts nothing, if
 * none runs. */
struct client *client_try(const struct options *o, bool socket_first);
struct client *client_free(struct client *c);

static inline void client_freep(struct client **c)
{
	*c = client_free(*c);
}
#define _cleanup_client_ _cleanup_(client_freep)
#define _cleanup_message_ _cleanup_(sd_bus_message_unrefp)

/* From now on a person may be asked, where there is one, and polkit can be. */
void client_asks(struct client *c, const struct options *o);

/* A message to be filled in. NULL if memory is out, which has been said. */
sd_bus_message *client_message(struct client *c, const char *path, const char *interface,
			       const char *member);

/* Sends a message, which it unrefs, and waits for the answer; at most timeout_usec (0: as long as
 * is usual). ret_reply may be NULL. Returns 0 or an exit status. */
int client_send(struct client *c, sd_bus_message *m, uint64_t timeout_usec,
		sd_bus_message **ret_reply);

/* client_message, sd_bus_message_append and client_send in one; types is NULL for no arguments. */
int client_call(struct client *c, const char *path, const char *interface, const char *member,
		sd_bus_message **ret_reply, const char *types, ...);

/* Begins an option, an entry of an "a{sv}", whose value of that type is appended then, and ends it
 * if r tells that all went well so far. Both return 0 or a negative errno: the first that there
 * was. */
int option_open(sd_bus_message *m, const char *name, const char *type);
int option_close(sd_bus_message *m, int r);

/* Says that an answer of the daemon was not what conf/org.reclaimd1.xml says (r < 0), or that a
 * message could not be made. Returns EXIT_FAILED. */
int client_broken(int r);

/* No exit status of ours: the daemon has ended in the middle of something. */
#define CLIENT_LOST 255

/* After CLIENT_LOST: says so, waits until the daemon is there again, as after a restart, and
 * connects anew; what belonged to the connection must be gone. Returns 0, or EXIT_FAILED when it
 * does not come back. */
int client_again(struct client *c, const struct options *o);
