/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The private socket: D-Bus without a bus. */
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "bus-state.h"

/* Takes the descriptor. */
static int server_open(const struct bus *b, int fd, sd_bus **ret)
{
	sd_bus *conn = NULL;
	int r = sd_bus_new(&conn);

	if (r >= 0)
		r = sd_bus_set_fd(conn, fd, fd);
	if (r < 0) {
		(void)close(fd);
		(void)sd_bus_unref(conn);
		return r;
	}
	r = sd_bus_set_server(conn, true, b->id);
	if (r >= 0)
		r = sd_bus_set_anonymous(conn, true);
	if (r >= 0)
		r = sd_bus_set_sender(conn, "org.reclaimd1");
	if (r >= 0)
		r = sd_bus_set_close_on_exit(conn, false);
	if (r < 0) {
		(void)sd_bus_close_unref(conn);
		return r;
	}
	*ret = conn;
	return 0;
}

static int on_guest(void *userdata, int fd, struct api_client *a)
{
	struct bus *b = userdata;
	sd_bus *conn = NULL;
	struct link *l;
	int r = server_open(b, fd, &conn);

	if (r >= 0)
		r = link_new(&l, b, conn, a);
	if (r < 0)
		return r;
	r = sd_bus_start(conn);
	if (r < 0)
		link_cut(l);
	return r;
}

const struct speech speech_private = { SPEECH_DBUS, on_guest };
