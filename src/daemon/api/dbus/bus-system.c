/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The system bus. It may come after the daemon, go, and come again: a socket that is not there is
 * watched for without waking up, a connection that breaks is made again, slower each time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "bus-state.h"

#define BUS_NAME "org.reclaimd1"
#define SYSTEM_BUS_ADDRESS "unix:path=/run/dbus/system_bus_socket"
#define DELAY_LEAST_USEC (100 * USEC_PER_MSEC)
#define DELAY_MOST_USEC (60 * USEC_PER_SEC)

struct system_link {
	struct bus *bus;
	struct link *link; /* NULL while waiting to try again */
	sd_event_source *timer;
	uint64_t delay_usec;
	bool connected;
};

static int system_connect(struct system_link *s);

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	return system_connect(userdata);
}

/* Returns 0 or a negative errno, with which there will be no bus any more. */
static int try_later(struct system_link *s)
{
	s->timer = sd_event_source_disable_unref(s->timer);
	s->delay_usec = CLAMP(s->delay_usec * 2, DELAY_LEAST_USEC, DELAY_MOST_USEC);
	return sd_event_add_time_relative(s->bus->event, &s->timer, CLOCK_MONOTONIC, s->delay_usec,
					  s->delay_usec / 10, on_timer, s);
}

static void on_gone(struct link *l, void *userdata)
{
	struct system_link *s = userdata;

	(void)l;
	s->link = NULL;
	if (s->connected)
		log_line(LOG_NOTICE,
			 "The connection to the message bus is lost; trying again. The private "
			 "socket is not concerned.");
	s->connected = false;
	if (try_later(s) < 0)
		log_line(LOG_ERR,
			 "The message bus cannot be connected to any more: out of memory.");
}

static int on_named(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);
	uint32_t result = 0;

	(void)userdata;
	(void)error;
	if (e)
		log_line(LOG_ERR,
			 "The message bus does not let the daemon be " BUS_NAME
			 ": %s. Is the D-Bus policy installed?",
			 e->message ? e->message : e->name);
	else if (sd_bus_message_read(m, "u", &result) < 0 || result == 2)
		log_line(LOG_ERR, "Another process is " BUS_NAME
				  " on the message bus; waiting until it lets go.");
	return 0;
}

static int on_connected(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct system_link *s = userdata;
	int r = sd_bus_request_name_async(s->link->conn, NULL, BUS_NAME, SD_BUS_NAME_QUEUE,
					  on_named, s);

	(void)m;
	(void)error;
	s->connected = true;
	s->delay_usec = 0;
	if (r < 0)
		link_cut_off(s->link);
	return 0;
}

static int system_open(struct system_link *s, sd_bus **ret)
{
	const char *address = s->bus->o.bus_address;
	sd_bus *conn = NULL;
	int r = sd_bus_new(&conn);

	if (!address)
		address = secure_getenv("DBUS_SYSTEM_BUS_ADDRESS");
	if (r >= 0)
		r = sd_bus_set_address(conn, address ? address : SYSTEM_BUS_ADDRESS);
	if (r >= 0)
		r = sd_bus_set_bus_client(conn, true);
	/* A process that receives a descriptor has to close it, which may never return, and on a
	 * bus no proxy stands between a client and the event loop. The bus refuses to deliver such
	 * messages then. */
	if (r >= 0)
		r = sd_bus_negotiate_fds(conn, false);
	if (r >= 0)
		r = sd_bus_set_watch_bind(conn, true);
	if (r >= 0)
		r = sd_bus_set_connected_signal(conn, true);
	if (r >= 0)
		r = sd_bus_set_close_on_exit(conn, false);
	if (r < 0) {
		(void)sd_bus_unref(conn);
		return r;
	}
	*ret = conn;
	return 0;
}

static int system_connect(struct system_link *s)
{
	sd_bus *conn = NULL;
	int r = system_open(s, &conn);

	if (r >= 0)
		r = link_new(&s->link, s->bus, conn, NULL);
	if (r < 0)
		return try_later(s);
	s->link->gone = on_gone;
	s->link->userdata = s;
	r = sd_bus_match_signal(conn, NULL, "org.freedesktop.DBus.Local",
				"/org/freedesktop/DBus/Local", "org.freedesktop.DBus.Local",
				"Connected", on_connected, s);
	if (r >= 0)
		r = sd_bus_start(conn);
	if (r < 0)
		link_cut(s->link);
	return 0;
}

sd_bus *system_link_connection(const struct system_link *s)
{
	return s && s->link && s->connected ? s->link->conn : NULL;
}

int system_link_new(struct system_link **ret, struct bus *b)
{
	struct system_link *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->bus = b;
	r = system_connect(s);
	if (r < 0) {
		(void)system_link_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct system_link *system_link_free(struct system_link *s)
{
	if (!s)
		return NULL;
	(void)sd_event_source_disable_unref(s->timer);
	if (s->link) {
		s->link->gone = NULL;
		link_cut(s->link);
	}
	free(s);
	return NULL;
}
