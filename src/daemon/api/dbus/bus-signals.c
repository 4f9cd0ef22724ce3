/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What happens, sent to all that listen, on D-Bus and on Varlink. On a message bus every client
 * may listen: what is told of a job is its number and its state, nothing else. On the private
 * socket only clients that may see the job are told.
 */
#include <errno.h>
#include <string.h>

#include "bus-state.h"

/* The names of the properties that may have changed, as "as"; or a negative errno. */
static int append_changing(sd_bus_message *m)
{
	int r = sd_bus_message_open_container(m, 'a', "s");

	for (const sd_bus_vtable *v = job_vtable; r >= 0 && v->type != _SD_BUS_VTABLE_END; v++)
		if (v->type == _SD_BUS_VTABLE_PROPERTY && (v->flags & FIELD_CHANGES))
			r = sd_bus_message_append(m, "s", v->x.property.member);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static void send_changed(sd_bus *conn, const char *path, const char *state)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	int r = sd_bus_message_new_signal(conn, &m, path, "org.freedesktop.DBus.Properties",
					  "PropertiesChanged");

	if (r >= 0)
		r = sd_bus_message_append(m, "sa{sv}", JOB_INTERFACE, 1, "State", "s", state);
	if (r >= 0)
		r = append_changing(m);
	if (r >= 0)
		(void)sd_bus_send(conn, m, NULL);
}

enum happening { JOB_NEW, JOB_CHANGED, JOB_ENDED };

/* A signal that cannot be sent is lost to a client that may have gone; clients ask again by
 * themselves when they connect. */
static void send_to(struct link *l, enum happening h, const struct job_record *r)
{
	const char *state = job_state_name(r->state);
	char path[JOB_PATH_MAX];

	job_path(path, r->id);
	if (h == JOB_NEW) {
		(void)sd_bus_emit_signal(l->conn, ROOT_PATH, OBJECT_MANAGER, "InterfacesAdded",
					 "oa{sa{sv}}", path, 1, JOB_INTERFACE, 2, "Id", "t", r->id,
					 "State", "s", state);
		(void)sd_bus_emit_signal(l->conn, ROOT_PATH, MANAGER_INTERFACE, "JobNew", "to",
					 r->id, path);
	} else {
		send_changed(l->conn, path, state);
	}
	if (h == JOB_ENDED) {
		(void)sd_bus_emit_signal(l->conn, path, JOB_INTERFACE, "Completed", "s", state);
		(void)sd_bus_emit_signal(l->conn, ROOT_PATH, MANAGER_INTERFACE, "JobFinished",
					 "tos", r->id, path, state);
		(void)sd_bus_emit_signal(l->conn, ROOT_PATH, OBJECT_MANAGER, "InterfacesRemoved",
					 "oas", path, 1, JOB_INTERFACE);
	}
	link_sent(l, MESSAGE_BYTES_USUAL);
}

static void send_all(struct bus *b, enum happening h, const struct job_record *r)
{
	struct link *l;

	LIST_FOREACH(l, &b->links, of_bus)
		if (sd_bus_is_ready(l->conn) > 0 && !l->cutting_off &&
		    (!l->client || caller_may_see(&l->client->c, r)))
			send_to(l, h, r);
	subscriptions_tell(b, r);
}

static void on_job_new(const struct job_record *r, void *userdata)
{
	send_all(userdata, JOB_NEW, r);
}

static void on_job_changed(const struct job_record *r, void *userdata)
{
	send_all(userdata, JOB_CHANGED, r);
}

static void on_job_finished(const struct job_record *r, void *userdata)
{
	send_all(userdata, JOB_ENDED, r);
}

static void on_daemon_changed(const char *property, void *userdata)
{
	struct bus *b = userdata;
	struct link *l;

	LIST_FOREACH(l, &b->links, of_bus) {
		if (sd_bus_is_ready(l->conn) <= 0 || l->cutting_off)
			continue;
		(void)sd_bus_emit_properties_changed(l->conn, ROOT_PATH, MANAGER_INTERFACE,
						     property, NULL);
		link_sent(l, MESSAGE_BYTES_USUAL);
	}
}

void signals_listen(struct bus *b)
{
	b->listener = (struct listener){ .job_new = on_job_new,
					 .job_changed = on_job_changed,
					 .job_finished = on_job_finished,
					 .daemon_changed = on_daemon_changed,
					 .userdata = b };
	operation_listen(b->operations, &b->listener);
}

void signals_ignore(struct bus *b)
{
	operation_ignore(b->operations, &b->listener);
}
