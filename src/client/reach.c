/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"

/* Connects to the socket in a directory, however long the directory's path is. */
static int socket_connect(const char *dir)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = -1;

	if (dirfd < 0)
		return -errno;
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/private",
		       dirfd);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return fd_take(&fd);
}

static int open_socket(struct reach *reach, const char *dir)
{
	int fd = socket_connect(dir), r;

	if (fd < 0)
		return fd;
	r = sd_bus_new(&reach->bus);
	if (r >= 0)
		r = sd_bus_set_fd(reach->bus, fd, fd);
	if (r < 0) {
		fd_closep(&fd);
		return r;
	}
	/* The descriptor is the connection's from here on. */
	r = sd_bus_negotiate_fds(reach->bus, true);
	if (r >= 0)
		r = sd_bus_start(reach->bus);
	reach->direct = true;
	return r;
}

/* Checks that a daemon owns our name on the bus; if start is set, has the bus start one. */
static int name_reach(sd_bus *bus, bool start)
{
	int r = sd_bus_call_method(bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
				   "org.freedesktop.DBus", "GetNameOwner", NULL, NULL, "s",
				   REACH_BUS_NAME);

	if (r >= 0 || !start)
		return r;
	return sd_bus_call_method(bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
				  "org.freedesktop.DBus", "StartServiceByName", NULL, NULL, "su",
				  REACH_BUS_NAME, 0);
}

static int open_bus(struct reach *reach, const struct route *w)
{
	int r = w->machine ? sd_bus_open_system_machine(&reach->bus, w->machine)
			   : sd_bus_open_system(&reach->bus);

	if (r >= 0)
		r = name_reach(reach->bus, w->start);
	reach->direct = false;
	return r;
}

void reach_close(struct reach *reach)
{
	reach->bus = sd_bus_flush_close_unref(reach->bus);
}

/* One of the two ways. Leaves nothing behind where it fails. */
static int try_one(struct reach *ret, bool direct, const struct route *w)
{
	struct reach reach = { 0 };
	int r = direct ? open_socket(&reach, w->dir ? w->dir : REACH_RUNTIME_DIR)
		       : open_bus(&reach, w);

	if (r < 0) {
		reach_close(&reach);
		return r;
	}
	*ret = reach;
	return 0;
}

int reach_daemon(struct reach *ret, const struct route *w)
{
	struct reach direct;
	int r;

	if (w->dir || w->machine)
		return try_one(ret, /* direct= */ w->dir, w);
	r = try_one(ret, w->socket_first, w);
	if (r >= 0)
		return r;
	r = try_one(ret, !w->socket_first, w);
	/* The bus may have started the daemon, whose socket is there now. Only the socket carries
	 * descriptors. */
	if (r >= 0 && w->socket_first && try_one(&direct, /* direct= */ true, w) >= 0) {
		reach_close(ret);
		*ret = direct;
	}
	return r;
}

const char *reach_environment_dir(void)
{
	const char *dir = secure_getenv("RECLAIMD_RUNTIME_DIRECTORY");

	return dir && dir[0] ? dir : NULL;
}
