/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ways to the daemon: the system bus, or its private socket, where there need be no bus. What
 * reclaimctl and libreclaim have in common. Says nothing, keeps nothing. */
#pragma once

#include <stdbool.h>
#include <systemd/sd-bus.h>

#define REACH_BUS_NAME "org.reclaimd1"
#define REACH_RUNTIME_DIR "/run/reclaimd"

/* A connection; all zero is none. */
struct reach {
	sd_bus *bus;
	bool direct; /* on the private socket: there is no name to call */
};

/* How to connect. */
struct route {
	const char *dir;     /* only to the socket in it, or NULL */
	const char *machine; /* only on the system bus of this container, or NULL */
	bool socket_first;
	bool start; /* the bus may start the daemon */
};

/* Connects, the second way where the first fails. A direct connection may still be greeting.
 * Returns 0, or the negative errno of the last way. */
int reach_daemon(struct reach *ret, const struct route *w);

/* Sends what is to be sent, closes, and leaves none. */
void reach_close(struct reach *reach);

/* The directory that the environment names for the private socket, or NULL. Programs with more
 * rights than their caller are not told by that. */
const char *reach_environment_dir(void);
