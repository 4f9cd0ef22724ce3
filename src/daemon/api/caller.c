/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "caller.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/context/account.h"
#include "base/fd.h"
#include "base/macros.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Senders whose credentials are kept: the next message of one of them costs no question. */
#define SENDERS_KEPT 64

struct waiting {
	STAILQ_ENTRY(waiting) link;
	api_client_known_t known;
	void *userdata;
};

struct sender {
	LIST_ENTRY(sender) link;
	struct api_client *client;
	bool known; /* or else the client is asked for */
	sd_bus_slot *slot;
	STAILQ_HEAD(waiting_list, waiting) waiting;
};

struct api_clients {
	sd_bus *bus;
	LIST_HEAD(sender_list, sender) senders; /* the newest first */
};

struct api_client *api_client_ref(struct api_client *a)
{
	a->refs++;
	a->used_usec = now_usec();
	return a;
}

struct api_client *api_client_unref(struct api_client *a)
{
	if (a)
		a->used_usec = now_usec();
	if (a && --a->refs == 0) {
		assert(!LIST_FIRST(&a->watches));
		(void)sd_bus_slot_unref(a->leaving);
		free(a->c.id.groups);
		free(a->bus_name);
		fd_closep(&a->c.pidfd);
		fd_closep(&a->sock);
		free(a);
	}
	return NULL;
}

void api_client_disconnect(struct api_client *a)
{
	if (!a || a->sock < 0)
		return;
	(void)shutdown(a->sock, SHUT_RDWR);
	fd_closep(&a->sock);
}

static int socket_groups(int fd, gid_t **ret, size_t *ret_n)
{
	socklen_t size = 32 * sizeof(gid_t);

	for (;;) {
		gid_t *groups = malloc(size + 1);
		socklen_t had = size;

		if (!groups)
			return -ENOMEM;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) == 0) {
			*ret = groups;
			*ret_n = size / sizeof(gid_t);
			return 0;
		}
		free(groups);
		if (errno != ERANGE || size <= had)
			return -errno;
	}
}

static struct api_client *api_client_new(void)
{
	struct api_client *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->refs = 1;
	a->c.pidfd = -1;
	a->sock = -1;
	return a;
}

/* The process that connected, or -1. Before Linux 6.5 its number may be another's by now, if it has
 * ended since. */
static int socket_process(int fd, pid_t pid)
{
	int pidfd = -1;
	socklen_t size = sizeof(pidfd);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
		return pidfd;
	return errno == ENOPROTOOPT && pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

int caller_view(const struct caller *c, int *ret)
{
	struct pollfd ended = { .fd = c->pidfd, .events = POLLIN };
	_cleanup_close_ int fd = -1;
	char path[64];

	*ret = -1;
	if (c->is_us)
		return 0;
	if (c->pid <= 0 || c->pidfd < 0)
		return -ESRCH;
	(void)snprintf(path, sizeof(path), "/proc/%ld/mountinfo", (long)c->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* As long as it has not ended, the number is its own. */
	if (poll(&ended, 1, 0) != 0)
		return -ESRCH;
	*ret = fd_take(&fd);
	return 0;
}

int api_client_from_socket(struct api_client **ret, int fd)
{
	struct api_client *a = api_client_new();
	struct ucred cred;
	socklen_t size = sizeof(cred);
	int r;

	if (!a)
		return -ENOMEM;
	r = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0
		    ? -errno
		    : socket_groups(fd, &a->c.id.groups, &a->c.id.n_groups);
	if (r < 0) {
		(void)api_client_unref(a);
		return r;
	}
	a->c.id.uid = cred.uid;
	a->account = account_of(cred.uid);
	a->used_usec = now_usec();
	a->c.id.gid = cred.gid;
	a->c.pid = cred.pid;
	a->c.pidfd = socket_process(fd, cred.pid);
	*ret = a;
	return 0;
}

static int read_groups(sd_bus_message *m, struct credentials *id)
{
	const void *groups;
	size_t size;
	int r = sd_bus_message_enter_container(m, 'v', "au");

	if (r >= 0)
		r = sd_bus_message_read_array(m, 'u', &groups, &size);
	if (r < 0)
		return r;
	free(id->groups);
	id->groups = malloc(size + 1);
	if (!id->groups)
		return -ENOMEM;
	if (size > 0)
		memcpy(id->groups, groups, size);
	id->n_groups = size / sizeof(gid_t);
	return sd_bus_message_exit_container(m);
}

static int read_credentials(sd_bus_message *m, struct caller *c, bool *ret_uid, bool *ret_groups)
{
	struct credentials *id = &c->id;
	int r = sd_bus_message_enter_container(m, 'a', "{sv}");
	uint32_t pid;

	while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		const char *key;

		r = sd_bus_message_read(m, "s", &key);
		if (r < 0)
			break;
		if (strcmp(key, "UnixUserID") == 0) {
			r = sd_bus_message_read(m, "v", "u", &id->uid);
			*ret_uid = r >= 0;
		} else if (strcmp(key, "UnixGroupIDs") == 0) {
			r = read_groups(m, id);
			*ret_groups = r >= 0 && id->n_groups > 0;
		} else if (strcmp(key, "ProcessID") == 0) {
			r = sd_bus_message_read(m, "v", "u", &pid);
			c->pid = r >= 0 && pid <= INT32_MAX ? (pid_t)pid : 0;
		} else {
			r = sd_bus_message_skip(m, "v");
		}
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	return r < 0 ? r : 0;
}

/* The bus does not say which of the groups is the primary one. Access is granted by each of them
 * alike, so any may take its place. Returns NULL, or why the client is not known. */
static const char *client_identify(struct api_client *a, sd_bus_message *m)
{
	bool has_uid = false, has_groups = false;

	if (sd_bus_message_is_method_error(m, NULL) ||
	    read_credentials(m, &a->c, &has_uid, &has_groups) < 0)
		return "the message bus does not tell which process that is";
	if (!has_uid)
		return "the message bus does not tell which user that is";
	if (!has_groups && a->c.id.uid != 0)
		return "the message bus does not tell which groups the user is in: use the "
		       "private socket";
	a->account = account_of(a->c.id.uid);
	a->c.id.gid = has_groups ? a->c.id.groups[0] : 0;
	/* A bus that may pass descriptors would give one of the process. The number alone may be
	 * that of another process if the client ended a moment ago. */
	if (a->c.pid > 0)
		a->c.pidfd = (int)syscall(SYS_pidfd_open, a->c.pid, 0);
	return NULL;
}

/* Answers what waits for the sender: why it is not known, or that it is. */
static void sender_answer(struct sender *s, const char *why)
{
	struct waiting_list waiting = STAILQ_HEAD_INITIALIZER(waiting);
	struct waiting *w;

	STAILQ_CONCAT(&waiting, &s->waiting);
	while ((w = STAILQ_FIRST(&waiting))) {
		STAILQ_REMOVE_HEAD(&waiting, link);
		w->known(why ? NULL : s->client, why, w->userdata);
		free(w);
	}
}

/* Forgets it, and answers what still waits. */
static void sender_forget(struct sender *s, const char *why)
{
	LIST_REMOVE(s, link);
	sender_answer(s, why);
	(void)sd_bus_slot_unref(s->slot);
	(void)api_client_unref(s->client);
	free(s);
}

static int on_credentials(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct sender *s = userdata;
	const char *why = client_identify(s->client, m);

	(void)error;
	s->known = !why;
	if (why)
		sender_forget(s, why);
	else
		sender_answer(s, NULL);
	return 0;
}

int api_clients_new(struct api_clients **ret, sd_bus *bus)
{
	struct api_clients *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->bus = bus;
	*ret = s;
	return 0;
}

struct api_clients *api_clients_free(struct api_clients *s)
{
	if (!s)
		return NULL;
	for (struct sender *i = LIST_FIRST(&s->senders), *next; i; i = next) {
		next = LIST_NEXT(i, link);
		sender_forget(i, "the message bus has gone");
	}
	free(s);
	return NULL;
}

/* Forgets the oldest sender that is known, where there are many. */
static void api_clients_trim(struct api_clients *s)
{
	struct sender *oldest = NULL, *i;
	unsigned n = 0;

	LIST_FOREACH(i, &s->senders, link) {
		n += i->known;
		oldest = i->known ? i : oldest;
	}
	if (n > SENDERS_KEPT)
		sender_forget(oldest, NULL);
}

static int on_leaving(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct api_client *a = api_client_ref(userdata);
	struct client_watch *w;

	(void)m;
	(void)error;
	a->gone = true;
	while ((w = LIST_FIRST(&a->watches)))
		w->left(w);
	(void)api_client_unref(a);
	return 0;
}

/* Without this, the default ends the connection when the bus refuses. */
static int on_listening(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct api_client *a = userdata;

	(void)error;
	a->unwatched = sd_bus_message_is_method_error(m, NULL);
	return 0;
}

/* Before its credentials are asked for, so that no end is missed. */
static int client_listen(struct api_client *a, sd_bus *bus)
{
	char match[320];

	(void)snprintf(match, sizeof(match),
		       "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
		       "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='%s',"
		       "arg2=''",
		       a->bus_name);
	return sd_bus_add_match_async(bus, &a->leaving, match, on_leaving, on_listening, a);
}

static int sender_new(struct api_clients *s, const char *name, struct sender **ret)
{
	struct sender *n = calloc(1, sizeof(*n));
	struct api_client *a = n ? api_client_new() : NULL;
	int r = -ENOMEM;

	if (!a) {
		free(n);
		return r;
	}
	*n = (struct sender){ .client = a };
	STAILQ_INIT(&n->waiting);
	LIST_INSERT_HEAD(&s->senders, n, link);
	a->c.bus_name = a->bus_name = strdup(name);
	if (a->bus_name)
		r = client_listen(a, s->bus);
	if (r >= 0)
		r = sd_bus_call_method_async(s->bus, &n->slot, "org.freedesktop.DBus",
					     "/org/freedesktop/DBus", "org.freedesktop.DBus",
					     "GetConnectionCredentials", on_credentials, n, "s",
					     name);
	if (r < 0)
		sender_forget(n, NULL);
	else
		*ret = n;
	return r;
}

int api_clients_find(struct api_clients *s, const char *sender, api_client_known_t known,
		     void *userdata)
{
	struct waiting *w;
	struct sender *i;
	int r;

	LIST_FOREACH(i, &s->senders, link)
		if (strcmp(i->client->bus_name, sender) == 0)
			break;
	if (i && i->known) {
		known(i->client, NULL, userdata);
		return 0;
	}
	if (!i) {
		api_clients_trim(s);
		r = sender_new(s, sender, &i);
		if (r < 0)
			return r;
	}
	w = malloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct waiting){ .known = known, .userdata = userdata };
	STAILQ_INSERT_TAIL(&i->waiting, w, link);
	return 0;
}

bool caller_may_see(const struct caller *c, const struct job_record *r)
{
	return r->uid == c->id.uid || c->id.uid == 0;
}
