/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who asks: what the kernel says of the other end of a socket, or the message bus of a sender. Who
 * that is is not read from /proc or the user database: both may name somebody else by now, or give
 * groups that the process does not have. Only the mounts of the process come from /proc, after a
 * descriptor has pinned it. */
#pragma once

#include <systemd/sd-bus.h>

#include "daemon/workers/worker-handle.h"
#include "store/store.h"

struct grant;

/* Who asks: from the socket or the bus, never from /proc or the user database. */
struct caller {
	struct credentials id;
	bool is_us; /* reclaimd asks for itself: its own mounts count */
	/* The process, and a descriptor that stands for it; 0 and -1 where it is not known. */
	pid_t pid;
	int pidfd;
	/* By which polkit can be asked whether the caller may act on others' jobs; NULL where that
	 * cannot be asked, which means no. root always may. */
	const char *bus_name;
	const struct grant *grant; /* what polkit has said, for this one operation; or NULL */
};

/* A caller that is kept as long as something that it asked for is open. */
struct asker {
	unsigned refs;
	uid_t account;      /* that limits are for */
	uint64_t used_usec; /* when something of it began or ended last */
	bool listens;       /* it waits for what happens */
	int sock;        /* of a connection to a socket of ours, besides the one in use; -1: none */
	struct caller c; /* c.bus_name and c.id.groups are the asker's */
	char *bus_name;
	sd_bus_slot *leaving; /* on a bus: hears of its end */
	bool gone;            /* from the bus */
};

/* The credentials that the peer of a connected Unix socket had when it connected. Returns 0 or a
 * negative errno. */
int asker_from_socket(struct asker **ret, int fd);
struct asker *asker_ref(struct asker *a);
/* NULL is accepted; returns NULL. */
struct asker *asker_unref(struct asker *a);
/* The connection is over: its other end is told, which the descriptor kept here would prevent. NULL
 * is accepted. */
void asker_hang_up(struct asker *a);

/* Opens the mount table of the process that asks, as its namespace and root are now. Returns 0,
 * with *ret -1 if reclaimd asks for itself; -ESRCH if the process has ended or is not known; or
 * another negative errno. */
int caller_view(const struct caller *c, int *ret);

/* The senders on one message bus. Their credentials are asked of the bus driver once and kept: a
 * unique name is never given twice, so what is kept cannot become somebody else's. */
struct askers;

/* a is NULL where the bus does not tell who that is; `why` (static) says more. */
typedef void (*asker_known_t)(struct asker *a, const char *why, void *userdata);

int askers_new(struct askers **ret, sd_bus *bus);
/* Those who wait are answered with NULL. */
struct askers *askers_free(struct askers *s);

/* Calls known, in this call or later, in the order in which one sender's were asked for. Returns 0,
 * or a negative errno; then known is not called. */
int askers_find(struct askers *s, const char *sender, asker_known_t known, void *userdata);

/* May the caller see this job at all? For object paths and signals. */
bool caller_may_see(const struct caller *c, const struct job_record *r);
