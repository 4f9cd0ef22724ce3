/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who has connected to one of our sockets: who that is, the kernel says. In between is a process of
 * the client's user (worker/pump.h), which takes descriptors and long messages off our hands until
 * they can do no harm; it counts as the connection, for as long as it lives. At its other end is
 * thus a process of ours, so that what the client claims to be is not even looked at. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus-internal.h"
#include "util/fd.h"
#include "worker-process.h"

struct guest {
	struct guests *guests;
	uid_t uid;
	int pidfd;
	sd_event_source *end;
	struct guest *next;
};

struct guests {
	struct bus *bus;
	const struct speech *speech;
	struct guest *first;
};

int guests_new(struct guests **ret, struct bus *b, const struct speech *speech)
{
	struct guests *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->bus = b;
	p->speech = speech;
	*ret = p;
	return 0;
}

static void guest_free(struct guest *p)
{
	quota_give(p->guests->bus->quota, p->uid, QUOTA_LINKS, 1);
	(void)sd_event_source_disable_unref(p->end);
	fd_closep(&p->pidfd);
	free(p);
}

struct guests *guests_free(struct guests *p)
{
	while (p && p->first) {
		struct guest *first = p->first;

		p->first = first->next;
		guest_free(first);
	}
	free(p);
	return NULL;
}

static int on_end(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct guest *p = userdata, **at = &p->guests->first;
	char how[64];

	(void)source;
	(void)events;
	if (!process_ended(fd, how, sizeof(how)))
		return 0;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	guest_free(p);
	return 0;
}

/* What a pump begins with: what is spoken, the client's connection, and the permits. */
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

/* Returns our end of a connection to the pump, or a negative errno. */
static int pump_start(struct guest *p, int client)
{
	struct bus *b = p->guests->bus;
	int permits = quota_permits(b->quota, p->uid), pair[2], r;
	_cleanup_close_ int ours = -1, its = -1;

	if (permits < 0)
		return permits;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	its = pair[1];
	r = greet(ours, p->guests->speech->id, client, permits);
	if (r >= 0)
		r = process_start(b->o.pump, fd_take(&its), &p->pidfd);
	return r < 0 ? r : fd_take(&ours);
}

/* Returns our end as pump_start, with somebody who waits for the pump's end. */
static int guest_start(struct guests *guests, uid_t uid, int client)
{
	struct guest *p = calloc(1, sizeof(*p));
	_cleanup_close_ int sock = -1;
	int r = p ? quota_take(guests->bus->quota, uid, QUOTA_LINKS, 1) : -ENOMEM;

	if (r < 0) {
		free(p);
		return r;
	}
	*p = (struct guest){ .guests = guests, .uid = uid, .pidfd = -1 };
	sock = r = pump_start(p, client);
	if (r >= 0)
		r = sd_event_add_io(guests->bus->event, &p->end, p->pidfd, EPOLLIN, on_end, p);
	if (r < 0) {
		process_bury(guests->bus->event, fd_take(&p->pidfd), -1, /* now= */ true,
			     &(struct process_watch){ 0 });
		guest_free(p);
		return r;
	}
	p->next = guests->first;
	guests->first = p;
	return fd_take(&sock);
}

int guest_new(struct guests *p, int fd)
{
	_cleanup_close_ int client = fd;
	struct asker *a = NULL;
	int r = asker_from_socket(&a, fd);

	if (r < 0)
		return r;
	r = guest_start(p, a->c.id.uid, client);
	if (r >= 0)
		r = p->speech->open(p->bus, r, a);
	(void)asker_unref(a);
	return r;
}
