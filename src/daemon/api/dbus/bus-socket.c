/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A socket that clients connect to, whatever is spoken there. Every user may connect. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "bus-state.h"
#include "base/fd.h"

/* At one turn of the loop; other sources have their turn, too. */
#define ACCEPT_MOST 4
/* How long no connection is accepted where descriptors have run out. */
#define PAUSE_USEC USEC_PER_SEC

static int on_pause_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct bus_socket *s = userdata;

	(void)source;
	(void)usec;
	return sd_event_source_set_enabled(s->source, SD_EVENT_ON);
}

/* Without a pause a connection that cannot be accepted would be tried again at once, for ever. */
static int pause_accepting(struct bus_socket *s)
{
	log_line(LOG_WARNING, "Connections to %s have to wait: %s.", s->path, strerror(errno));
	s->timer = sd_event_source_disable_unref(s->timer);
	if (sd_event_add_time_relative(s->bus->event, &s->timer, CLOCK_MONOTONIC, PAUSE_USEC, 0,
				       on_pause_over, s) >= 0)
		(void)sd_event_source_set_enabled(s->source, SD_EVENT_OFF);
	return 0;
}

static int on_connection(sd_event_source *source, int listening, uint32_t events, void *userdata)
{
	struct bus_socket *s = userdata;

	(void)source;
	(void)events;
	for (unsigned i = 0; i < ACCEPT_MOST; i++) {
		int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			(void)guest_new(s, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			return pause_accepting(s);
		if (errno != EINTR && errno != ECONNABORTED)
			break;
	}
	return 0;
}

/* A socket file without a listener is left over from a daemon that was killed. */
static int remove_leftover(const struct sockaddr_un *address, socklen_t len)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (lstat(address->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	if (connect(fd, (const struct sockaddr *)address, len) == 0 || errno == EAGAIN)
		return -EADDRINUSE;
	if (errno != ECONNREFUSED)
		return -errno;
	return unlink(address->sun_path) < 0 ? -errno : 0;
}

static int listen_at(struct bus_socket *s)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(address);
	int r;

	if (strlen(s->path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, s->path, strlen(s->path) + 1);
	r = remove_leftover(&address, len);
	if (r < 0)
		return r;
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0 || bind(s->fd, (const struct sockaddr *)&address, len) < 0)
		return -errno;
	s->made = true;
	if (chmod(s->path, 0666) < 0 || listen(s->fd, SOMAXCONN) < 0)
		return -errno;
	return 0;
}

/* The descriptor on which systemd listens at the path for us, or -1. */
static int listening_already(const char *path)
{
	int n = sd_listen_fds(0);

	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; fd++)
		if (sd_is_socket_unix(fd, SOCK_STREAM, 1, path, 0) > 0)
			return fd;
	return -1;
}

static int fd_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int bus_socket_new(struct bus_socket **ret, struct bus *b, const char *path,
		   const struct speech *speech, void *userdata)
{
	struct bus_socket *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct bus_socket){ .bus = b, .speech = speech, .userdata = userdata };
	s->fd = listening_already(path);
	s->path = strdup(path);
	r = !s->path ? -ENOMEM : s->fd >= 0 ? fd_nonblocking(s->fd) : listen_at(s);
	if (r >= 0)
		r = sd_event_add_io(b->event, &s->source, s->fd, EPOLLIN, on_connection, s);
	if (r < 0) {
		(void)bus_socket_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct bus_socket *bus_socket_free(struct bus_socket *s)
{
	if (!s)
		return NULL;
	(void)sd_event_source_disable_unref(s->timer);
	(void)sd_event_source_disable_unref(s->source);
	guests_free(s);
	fd_closep(&s->fd);
	if (s->made)
		(void)unlink(s->path);
	free(s->path);
	free(s);
	return NULL;
}
