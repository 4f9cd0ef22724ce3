/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "caller.h"

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
	asker_known_t known;
	void *userdata;
	struct waiting *next;
};

struct sender {
	struct askers *owner;
	char *name;
	struct asker *asker; /* NULL: asked for */
	sd_bus_slot *slot;
	sd_bus_slot *leaving; /* the asker's, once there is one */
	struct waiting *first, **end;
	struct sender *next;
};

struct askers {
	sd_bus *bus;
	struct sender *senders; /* the newest first */
};

struct asker *asker_ref(struct asker *a)
{
	a->refs++;
	a->used_usec = now_usec();
	return a;
}

struct asker *asker_unref(struct asker *a)
{
	if (a)
		a->used_usec = now_usec();
	if (a && --a->refs == 0) {
		(void)sd_bus_slot_unref(a->leaving);
		free(a->c.id.groups);
		free(a->bus_name);
		fd_closep(&a->c.pidfd);
		fd_closep(&a->sock);
		free(a);
	}
	return NULL;
}

void asker_hang_up(struct asker *a)
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

static struct asker *asker_new(void)
{
	struct asker *a = calloc(1, sizeof(*a));

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

int asker_from_socket(struct asker **ret, int fd)
{
	struct asker *a = asker_new();
	struct ucred cred;
	socklen_t size = sizeof(cred);
	int r = 0;

	if (!a)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		r = -errno;
	if (r >= 0)
		r = socket_groups(fd, &a->c.id.groups, &a->c.id.n_groups);
	if (r < 0) {
		(void)asker_unref(a);
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

static int read_process_fd(sd_bus_message *m, struct caller *c)
{
	int fd, r = sd_bus_message_read(m, "v", "h", &fd);

	fd_closep(&c->pidfd);
	c->pidfd = r < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return r;
}

static int read_process(sd_bus_message *m, struct caller *c)
{
	uint32_t pid;
	int r = sd_bus_message_read(m, "v", "u", &pid);

	if (r >= 0 && pid > 0 && pid <= INT32_MAX)
		c->pid = (pid_t)pid;
	return r;
}

static int read_credentials(sd_bus_message *m, struct caller *c, bool *ret_uid, bool *ret_groups)
{
	struct credentials *id = &c->id;
	int r = sd_bus_message_enter_container(m, 'a', "{sv}");

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
		} else if (strcmp(key, "ProcessFD") == 0) {
			r = read_process_fd(m, c);
		} else if (strcmp(key, "ProcessID") == 0) {
			r = read_process(m, c);
		} else {
			r = sd_bus_message_skip(m, "v");
		}
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	return r < 0 ? r : 0;
}

/* The bus does not say which of the groups is the primary one. Access is granted by each of them
 * alike, so any may take its place. */
static int asker_from_bus(struct asker **ret, sd_bus_message *m, const char *sender,
			  const char **ret_why)
{
	struct asker *a = asker_new();
	bool has_uid = false, has_groups = false;
	int r;

	if (!a)
		return -ENOMEM;
	a->bus_name = strdup(sender);
	a->c.bus_name = a->bus_name;
	r = a->bus_name ? read_credentials(m, &a->c, &has_uid, &has_groups) : -ENOMEM;
	if (r >= 0 && !has_uid) {
		*ret_why = "the message bus does not tell which user that is";
		r = -ENODATA;
	} else if (r >= 0 && !has_groups && a->c.id.uid != 0) {
		*ret_why = "the message bus does not tell which groups the user is in: use the "
			   "private socket";
		r = -ENODATA;
	}
	if (r < 0) {
		(void)asker_unref(a);
		return r;
	}
	a->account = account_of(a->c.id.uid);
	a->c.id.gid = has_groups ? a->c.id.groups[0] : 0;
	/* Older buses give only its number, which may be another's if it ended a moment ago. */
	if (a->c.pidfd < 0 && a->c.pid > 0)
		a->c.pidfd = (int)syscall(SYS_pidfd_open, a->c.pid, 0);
	*ret = a;
	return 0;
}

static struct sender *sender_free(struct sender *s, const char *why)
{
	while (s->first) {
		struct waiting *w = s->first;

		s->first = w->next;
		w->known(s->asker, why, w->userdata);
		free(w);
	}
	(void)sd_bus_slot_unref(s->slot);
	(void)sd_bus_slot_unref(s->leaving);
	(void)asker_unref(s->asker);
	free(s->name);
	free(s);
	return NULL;
}

static void sender_unlink(struct sender *s)
{
	struct sender **p = &s->owner->senders;

	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
}

static int on_credentials(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *why = "the message bus does not tell who that is";
	struct sender *s = userdata;
	struct waiting *first = s->first;

	(void)error;
	if (sd_bus_message_is_method_error(m, NULL) ||
	    asker_from_bus(&s->asker, m, s->name, &why) < 0) {
		sender_unlink(s);
		(void)sender_free(s, why);
		return 0;
	}
	s->asker->leaving = s->leaving;
	s->leaving = NULL;
	(void)sd_bus_slot_set_userdata(s->asker->leaving, s->asker);
	s->first = NULL;
	s->end = &s->first;
	while (first) {
		struct waiting *w = first;

		first = w->next;
		w->known(s->asker, NULL, w->userdata);
		free(w);
	}
	return 0;
}

int askers_new(struct askers **ret, sd_bus *bus)
{
	struct askers *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->bus = bus;
	*ret = s;
	return 0;
}

struct askers *askers_free(struct askers *s)
{
	if (!s)
		return NULL;
	while (s->senders) {
		struct sender *first = s->senders;

		s->senders = first->next;
		(void)sender_free(first, "the message bus has gone");
	}
	free(s);
	return NULL;
}

/* Forgets the oldest sender that is known, where there are many. */
static void askers_trim(struct askers *s)
{
	struct sender *oldest = NULL;
	unsigned n = 0;

	for (struct sender *i = s->senders; i; i = i->next) {
		if (!i->asker)
			continue;
		n++;
		oldest = i;
	}
	if (n <= SENDERS_KEPT)
		return;
	sender_unlink(oldest);
	(void)sender_free(oldest, NULL);
}

static int sender_wait(struct sender *s, asker_known_t known, void *userdata)
{
	struct waiting *w = malloc(sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct waiting){ .known = known, .userdata = userdata };
	*s->end = w;
	s->end = &w->next;
	return 0;
}

/* Userdata is NULL until the asker is known: one that goes before is not known to the bus either.
 */
static int on_leaving(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct asker *a = userdata;

	(void)m;
	(void)error;
	if (a)
		a->gone = true;
	return 0;
}

/* Without this, the default ends the connection when the bus refuses. */
static int on_listening(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	(void)m;
	(void)userdata;
	(void)error;
	return 0;
}

/* Before its credentials are asked for, so that no end is missed. */
static int sender_listen(struct sender *n)
{
	char match[320];

	(void)snprintf(match, sizeof(match),
		       "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
		       "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='%s',"
		       "arg2=''",
		       n->name);
	return sd_bus_add_match_async(n->owner->bus, &n->leaving, match, on_leaving, on_listening,
				      NULL);
}

static int sender_new(struct askers *s, const char *name, struct sender **ret)
{
	struct sender *n = calloc(1, sizeof(*n));
	int r = -ENOMEM;

	if (!n)
		return -ENOMEM;
	n->owner = s;
	n->end = &n->first;
	n->name = strdup(name);
	if (n->name)
		r = sender_listen(n);
	if (r >= 0)
		r = sd_bus_call_method_async(s->bus, &n->slot, "org.freedesktop.DBus",
					     "/org/freedesktop/DBus", "org.freedesktop.DBus",
					     "GetConnectionCredentials", on_credentials, n, "s",
					     name);
	if (r < 0) {
		(void)sender_free(n, NULL);
		return r;
	}
	n->next = s->senders;
	s->senders = n;
	*ret = n;
	return 0;
}

int askers_find(struct askers *s, const char *sender, asker_known_t known, void *userdata)
{
	struct sender *i = s->senders;
	int r;

	while (i && strcmp(i->name, sender) != 0)
		i = i->next;
	if (i && i->asker) {
		known(i->asker, NULL, userdata);
		return 0;
	}
	if (!i) {
		askers_trim(s);
		r = sender_new(s, sender, &i);
		if (r < 0)
			return r;
	}
	return sender_wait(i, known, userdata);
}

bool caller_may_see(const struct caller *c, const struct job_record *r)
{
	return r->uid == c->id.uid || c->id.uid == 0;
}
