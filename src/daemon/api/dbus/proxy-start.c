/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Clients that have connected to one of our sockets: their credentials are the kernel's. In between
 * is a process of the client's user (worker/proxy/proxy.h), which takes descriptors and long
 * messages off our hands until they can do no harm; it counts as the connection, for as long as it
 * lives. At its other end is thus a process of ours, so that what the client claims to be is not
 * even looked at. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include "bus-state.h"
#include "base/fd.h"
#include "daemon/workers/worker-process.h"

struct guest {
	struct bus_socket *socket;
	struct api_client *client;
	int pidfd;
	bool leaving; /* does not count any more; its process still ends */
	sd_event_source *end;
	LIST_ENTRY(guest) of_bus;
};

/* Processes of one account that are to end and do not. What they wait for when they close is their
 * own. */
#define LEAVING_MOST 64

/* How long nothing was asked before a connection may be closed for a user who has none. */
#define IDLE_USEC USEC_PER_SEC

/* It is not in the list. */
static void guest_free(struct guest *p)
{
	if (!p->leaving)
		quota_give(p->socket->bus->quota, p->client->account, QUOTA_LINKS, 1);
	(void)sd_event_source_disable_unref(p->end);
	(void)api_client_unref(p->client);
	fd_closep(&p->pidfd);
	free(p);
}

void guests_free(struct bus_socket *s)
{
	for (struct guest *p = LIST_FIRST(&s->bus->guests), *next; p; p = next) {
		next = LIST_NEXT(p, of_bus);
		if (p->socket != s)
			continue;
		LIST_REMOVE(p, of_bus);
		guest_free(p);
	}
}

static int on_end(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct guest *p = userdata;
	char how[64];

	(void)source;
	(void)events;
	if (!process_ended(fd, how, sizeof(how)))
		return 0;
	LIST_REMOVE(p, of_bus);
	guest_free(p);
	return 0;
}

/* ---- room for a user without a connection
 * ---------------------------------------------------------------- */

static bool guest_is_idle(const struct guest *p)
{
	/* Ours and the connection's are the only references: nothing is being answered. */
	return p->client->refs <= 2 && !p->client->listens;
}

/* Is a better closed than b? Of whose user has most; idle before busy; the longest idle, but the
 * youngest that is busy, whose loss is the smallest. */
static bool closes_before(const struct guest *a, size_t a_has, const struct guest *b, size_t b_has)
{
	bool idle = guest_is_idle(a);

	if (a_has != b_has)
		return a_has > b_has;
	if (idle != guest_is_idle(b))
		return idle;
	return idle && a->client->used_usec < b->client->used_usec;
}

static unsigned leaving_of(const struct bus *b, uid_t account)
{
	const struct guest *p;
	unsigned n = 0;

	LIST_FOREACH(p, &b->guests, of_bus)
		n += p->leaving && p->client->account == account;
	return n;
}

/* The connection that gives way to another of a user who has `has`, or NULL. Only of a user who has
 * at least two more, so that they do not take turns; for a user without any, one that is idle. */
static struct guest *guest_gives_way(const struct bus *b, uid_t account, size_t has)
{
	struct guest *best = NULL, *p;
	size_t most = 0;

	LIST_FOREACH(p, &b->guests, of_bus) {
		uid_t whose = p->client->account;
		size_t n = quota_used(b->quota, whose, QUOTA_LINKS);

		if (p->leaving || whose == 0 || whose == account || n < most)
			continue;
		if (best && !closes_before(p, n, best, most))
			continue;
		if (leaving_of(b, whose) >= LEAVING_MOST)
			continue;
		best = p;
		most = n;
	}
	if (!best || most > has + 1)
		return best;
	return has == 0 && guest_is_idle(best) && now_usec() - best->client->used_usec > IDLE_USEC
		       ? best
		       : NULL;
}

/* Both ends see the end of the connection. Its process ends at its own pace, and is counted apart.
 */
static void guest_close(struct guest *p)
{
	const struct bus *b = p->socket->bus;

	log_user(LOG_NOTICE, p->client->c.id.uid, SD_ID128_NULL,
		 "A connection of user %u is closed: others have fewer, and there is no room.",
		 (unsigned)p->client->c.id.uid);
	quota_give(b->quota, p->client->account, QUOTA_LINKS, 1);
	p->leaving = true;
	api_client_disconnect(p->client);
}

static int link_take(struct bus *b, uid_t account)
{
	size_t has = quota_used(b->quota, account, QUOTA_LINKS);
	struct guest *other;
	int r;

	if (account != 0 &&
	    has + leaving_of(b, account) >= quota_share(b->quota, account, QUOTA_LINKS))
		return -EDQUOT;
	r = quota_take(b->quota, account, QUOTA_LINKS, 1);
	if (r != -ENFILE || account == 0)
		return r;
	other = guest_gives_way(b, account, has);
	if (!other)
		return -ENFILE;
	guest_close(other);
	return quota_take(b->quota, account, QUOTA_LINKS, 1);
}

/* ---- beginning ---------------------------------------------------------------------------- */

/* What a proxy begins with: what is spoken, the client's connection, and the permits. */
static int greet(int sock, enum protocol_speech speech, int client, int permits)
{
	const int fds[] = { client, permits };
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(fds))];
	} control = { .room = { 0 } };
	char byte = (char)speech;
	struct iovec v = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
					   .cmsg_type = SCM_RIGHTS,
					   .cmsg_len = CMSG_LEN(sizeof(fds)) };
	memcpy(CMSG_DATA(&control.header), fds, sizeof(fds));
	return sendmsg(sock, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Returns our end of a connection to the proxy, or a negative errno. */
static int proxy_start(struct guest *p, int client)
{
	struct bus *b = p->socket->bus;
	int permits = quota_permits(b->quota, p->client->account), pair[2], r;
	_cleanup_close_ int ours = -1, its = -1;

	if (permits < 0)
		return permits;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	its = pair[1];
	r = greet(ours, p->socket->speech->id, client, permits);
	if (r >= 0)
		r = process_start(b->o.proxy_program, fd_take(&its), &p->pidfd);
	return r < 0 ? r : fd_take(&ours);
}

/* Returns our end as proxy_start, with a source that waits for the end of the proxy. */
static int guest_start(struct bus_socket *s, struct api_client *a, int client)
{
	struct guest *p = calloc(1, sizeof(*p));
	_cleanup_close_ int sock = -1;
	int r = p ? link_take(s->bus, a->account) : -ENOMEM;

	if (r < 0) {
		free(p);
		return r;
	}
	*p = (struct guest){ .socket = s, .client = api_client_ref(a), .pidfd = -1 };
	sock = r = proxy_start(p, client);
	/* So that it can be closed from here. */
	if (r >= 0)
		a->sock = fcntl(sock, F_DUPFD_CLOEXEC, 3);
	if (r >= 0 && a->sock < 0)
		r = -errno;
	if (r >= 0)
		r = sd_event_add_io(s->bus->event, &p->end, p->pidfd, EPOLLIN, on_end, p);
	if (r < 0) {
		process_reap(s->bus->event, fd_take(&p->pidfd), -1, /* now= */ true,
			     &(struct process_watch){ 0 });
		guest_free(p);
		return r;
	}
	LIST_INSERT_HEAD(&s->bus->guests, p, of_bus);
	return fd_take(&sock);
}

int guest_new(struct bus_socket *s, int fd)
{
	_cleanup_close_ int client = fd;
	struct api_client *a = NULL;
	int r = api_client_from_socket(&a, fd);

	if (r < 0)
		return r;
	r = guest_start(s, a, client);
	if (r >= 0)
		r = s->speech->open(s->userdata, r, a);
	if (r < 0)
		api_client_disconnect(a);
	(void)api_client_unref(a);
	return r;
}
