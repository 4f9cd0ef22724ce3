/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One connection of either kind: the objects on it, and its end. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "bus-state.h"
#include "daemon/context/failure.h"

/* What may wait for a client that does not read, before it is cut off. The kernel's socket buffer
 * holds some hundred kilobytes before anything waits here. */
#define UNSENT_BYTES_MOST MiB(16)
#define UNSENT_MESSAGES_MOST 4096

struct link *link_unref(struct link *l)
{
	if (!l || --l->refs > 0)
		return NULL;
	(void)sd_bus_unref(l->conn);
	(void)api_client_unref(l->client);
	free(l);
	return NULL;
}

void link_cut(struct link *l)
{
	LIST_REMOVE(l, of_bus);
	l->cutting_off = sd_event_source_disable_unref(l->cutting_off);
	l->clients = api_clients_free(l->clients);
	polkit_cut(l);
	subscriptions_cut(l);
	if (!l->client)
		policy_timers_cut(l->bus);
	(void)sd_bus_detach_event(l->conn);
	sd_bus_close(l->conn);
	api_client_disconnect(l->client);
	if (l->gone)
		l->gone(l, l->userdata);
	l->bus = NULL;
	(void)link_unref(l);
}

static int on_cut_off(sd_event_source *source, void *userdata)
{
	(void)source;
	link_cut(userdata);
	return 0;
}

void link_cut_off(struct link *l)
{
	if (l->bus && !l->cutting_off)
		(void)sd_event_add_defer(l->bus->event, &l->cutting_off, on_cut_off, l);
}

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	(void)m;
	(void)error;
	link_cut_off(userdata);
	return 0;
}

bool fd_lives(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return fd >= 0 && poll(&p, 1, 0) == 0;
}

bool link_lives(const struct link *l)
{
	return l->bus && !l->cutting_off && fd_lives(sd_bus_get_fd(l->conn));
}

void link_sent(struct link *l, size_t bytes)
{
	uint64_t waiting = 0;

	if (!l->bus || l->cutting_off)
		return;
	(void)sd_bus_get_n_queued_write(l->conn, &waiting);
	l->unsent_bytes = waiting > 0 ? l->unsent_bytes + bytes : 0;
	if (waiting <= UNSENT_MESSAGES_MOST && l->unsent_bytes <= UNSENT_BYTES_MOST)
		return;
	if (l->client)
		log_user(LOG_NOTICE, l->client->c.id.uid, SD_ID128_NULL,
			 "A client of user %u does not read what it is sent; it is cut off.",
			 (unsigned)l->client->c.id.uid);
	else
		log_line(LOG_WARNING,
			 "The message bus does not read what it is sent; connecting to it anew.");
	link_cut_off(l);
}

/* What the driver of a bus would answer: clients made for a bus ask, and know nothing else. */
static int driver_call(struct link *l, sd_bus_message *m)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	bool hello = sd_bus_message_is_method_call(m, "org.freedesktop.DBus", "Hello");
	int r;

	if (!hello && !sd_bus_message_is_method_call(m, "org.freedesktop.DBus", "AddMatch") &&
	    !sd_bus_message_is_method_call(m, "org.freedesktop.DBus", "RemoveMatch"))
		return 0;
	r = sd_bus_message_new_method_return(m, &reply);
	if (r >= 0)
		r = sd_bus_message_set_sender(reply, "org.freedesktop.DBus");
	if (r >= 0 && hello)
		r = sd_bus_message_append(reply, "s", ":1.1");
	if (r >= 0)
		r = sd_bus_send(l->conn, reply, NULL);
	link_sent(l, MESSAGE_BYTES_USUAL);
	return r < 0 ? r : 1;
}

static int refuse_signature(struct link *l, sd_bus_message *m, const char *expected)
{
	struct failure f;
	int r;

	failure_set(&f, ERROR_INVALID_ARGUMENT, "%s takes (%s), not (%s).",
		    sd_bus_message_get_member(m), expected, sd_bus_message_get_signature(m, true));
	r = message_refuse(m, &f);
	link_sent(l, MESSAGE_BYTES_USUAL);
	return r < 0 ? r : 1;
}

/* The signature that a method takes, or NULL. */
static const char *signature_of(const char *interface, const char *member)
{
	const sd_bus_vtable *v = !interface || !member                       ? NULL
				 : strcmp(interface, MANAGER_INTERFACE) == 0 ? manager_vtable
				 : strcmp(interface, JOB_INTERFACE) == 0     ? job_vtable
				 : strcmp(interface, POLICY_INTERFACE) == 0  ? policy_vtable
									     : NULL;

	for (; v && v->type != _SD_BUS_VTABLE_END; v++)
		if (v->type == _SD_BUS_VTABLE_METHOD && strcmp(v->x.method.member, member) == 0)
			return v->x.method.signature ? v->x.method.signature : "";
	return NULL;
}

/* Sees every message before the objects do. What needs the caller's credentials, or the store, is
 * answered here: sd-bus itself only knows properties that can be had at once and are the same for
 * all. */
static int on_message(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *path = sd_bus_message_get_path(m), *expected;
	struct link *l = userdata;
	uint8_t type = 0;

	(void)sd_bus_message_get_type(m, &type);
	if (type != SD_BUS_MESSAGE_METHOD_CALL || !l->bus || !path)
		return 0;
	if (l->client) {
		int r = driver_call(l, m);

		if (r != 0)
			return r;
	}
	if (strcmp(path, ROOT_PATH) == 0 &&
	    sd_bus_message_is_method_call(m, OBJECT_MANAGER, "GetManagedObjects"))
		return request_begin(m, l, error);
	if (strcmp(path, JOB_PREFIX) == 0 &&
	    sd_bus_message_is_method_call(m, INTROSPECTABLE, "Introspect"))
		return request_begin(m, l, error);
	if ((strncmp(path, JOB_PREFIX "/", strlen(JOB_PREFIX) + 1) == 0 ||
	     strncmp(path, POLICY_PREFIX "/", strlen(POLICY_PREFIX) + 1) == 0) &&
	    (sd_bus_message_is_method_call(m, "org.freedesktop.DBus.Properties", "Get") ||
	     sd_bus_message_is_method_call(m, "org.freedesktop.DBus.Properties", "GetAll")))
		return request_begin(m, l, error);
	expected = signature_of(sd_bus_message_get_interface(m), sd_bus_message_get_member(m));
	if (expected && strcmp(expected, sd_bus_message_get_signature(m, true)) != 0)
		return refuse_signature(l, m, expected);
	return 0;
}

/* Every number may be a job's: whether it is one, the caller learns from the answer. */
static int find_job(sd_bus *conn, const char *path, const char *interface, void *userdata,
		    void **ret_found, sd_bus_error *error)
{
	(void)conn;
	(void)interface;
	(void)error;
	if (job_path_parse(path) == 0)
		return 0;
	*ret_found = userdata;
	return 1;
}

static int link_export(struct link *l)
{
	int r = sd_bus_add_filter(l->conn, NULL, on_message, l);

	if (r >= 0)
		r = sd_bus_match_signal(l->conn, NULL, "org.freedesktop.DBus.Local",
					"/org/freedesktop/DBus/Local", "org.freedesktop.DBus.Local",
					"Disconnected", on_disconnected, l);
	if (r >= 0)
		r = sd_bus_add_object_manager(l->conn, NULL, ROOT_PATH);
	if (r >= 0)
		r = sd_bus_add_object_vtable(l->conn, NULL, ROOT_PATH, MANAGER_INTERFACE,
					     manager_vtable, l);
	if (r >= 0)
		r = sd_bus_add_fallback_vtable(l->conn, NULL, JOB_PREFIX, JOB_INTERFACE, job_vtable,
					       find_job, l);
	return r < 0 ? r : views_export(l);
}

int link_new(struct link **ret, struct bus *b, sd_bus *conn, struct api_client *a)
{
	struct link *l = calloc(1, sizeof(*l));
	int r;

	if (!l) {
		(void)sd_bus_close_unref(conn);
		return -ENOMEM;
	}
	l->refs = 1;
	l->bus = b;
	l->conn = conn;
	l->client = a ? api_client_ref(a) : NULL;
	LIST_INSERT_HEAD(&b->links, l, of_bus);
	r = a ? 0 : api_clients_new(&l->clients, conn);
	if (r >= 0)
		r = link_export(l);
	if (r >= 0)
		r = sd_bus_attach_event(conn, b->event, SD_EVENT_PRIORITY_NORMAL);
	if (r < 0) {
		link_cut(l);
		return r;
	}
	*ret = l;
	return 0;
}
