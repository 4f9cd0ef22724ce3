/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Callers: what the kernel says of the other end of a socket, or the message bus of a sender. It
 * is not read from /proc or the user database: both may name another user by now, or give
 * groups that the process does not have. Only the mounts of the process come from /proc, after a
 * descriptor has pinned it. */
#pragma once

#include <sys/queue.h>
#include <systemd/sd-bus.h>

#include "daemon/workers/worker-handle.h"
#include "store/store.h"

struct grant;

/* The caller of an operation: from the socket or the bus, never from /proc or the user database. */
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

/* Waits for a client to leave its bus. The callback takes it out of the client's list. */
struct client_watch {
	LIST_ENTRY(client_watch) link;
	void (*left)(struct client_watch *w);
};

/* A caller that is kept as long as something that it asked for is open. */
struct api_client {
	unsigned refs;
	uid_t account;      /* that limits are for */
	uint64_t used_usec; /* when something of it began or ended last */
	bool listens;       /* it waits for what happens */
	int sock;        /* of a connection to a socket of ours, besides the one in use; -1: none */
	struct caller c; /* c.bus_name and c.id.groups are the client's */
	char *bus_name;
	sd_bus_slot *leaving; /* on a bus: the subscription to its end */
	bool gone;            /* from the bus */
	bool unwatched;       /* the bus does not tell of its end */
	LIST_HEAD(client_watch_list, client_watch) watches;
};

/* The credentials that the peer of a connected Unix socket had when it connected. Returns 0 or a
 * negative errno. */
int api_client_from_socket(struct api_client **ret, int fd);
struct api_client *api_client_ref(struct api_client *a);
/* NULL is accepted; returns NULL. */
struct api_client *api_client_unref(struct api_client *a);
/* The connection is over, and its other end sees that, which the descriptor kept here would
 * prevent. NULL is accepted. */
void api_client_disconnect(struct api_client *a);

/* Opens the mount table of the process that asks, as its namespace and root are now. Returns 0,
 * with *ret -1 if reclaimd asks for itself; -ESRCH if the process has ended or is not known; or
 * another negative errno. */
int caller_view(const struct caller *c, int *ret);

/* The senders on one message bus. Their credentials are asked of the bus driver once and kept: a
 * unique name is never given twice, so what is kept cannot become another client's. */
struct api_clients;

/* client is NULL where the bus does not tell its credentials; `why` (static) says more. */
typedef void (*api_client_known_t)(struct api_client *client, const char *why, void *userdata);

int api_clients_new(struct api_clients **ret, sd_bus *bus);
/* Requests that wait are answered with NULL. */
struct api_clients *api_clients_free(struct api_clients *s);

/* Calls known, in this call or later, in the order in which one sender's were asked for. Returns 0,
 * or a negative errno; then known is not called. */
int api_clients_find(struct api_clients *s, const char *sender, api_client_known_t known,
		     void *userdata);

/* May the caller see this job at all? For object paths and signals. */
bool caller_may_see(const struct caller *c, const struct job_record *r);
