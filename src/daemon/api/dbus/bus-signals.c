/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What happens, sent to all that listen, on D-Bus and on Varlink. On a message bus every client
 * may listen: what is told of a job is its number and its state, nothing else. On the private
 * socket only clients that may see the job are told.
 */
#include <errno.h>
#include <string.h>

#include "bus-state.h"

typedef int (*write_t)(sd_bus_message *m, const struct job_record *r, const char *path);

struct job_signal {
	const char *interface, *member;
	bool of_job; /* comes from the job's object, not the manager's */
	write_t write;
};

static int write_new(sd_bus_message *m, const struct job_record *r, const char *path)
{
	return sd_bus_message_append(m, "to", r->id, path);
}

static int write_finished(sd_bus_message *m, const struct job_record *r, const char *path)
{
	return sd_bus_message_append(m, "tos", r->id, path, job_state_name(r->state));
}

static int write_added(sd_bus_message *m, const struct job_record *r, const char *path)
{
	return sd_bus_message_append(m, "oa{sa{sv}}", path, 1, JOB_INTERFACE, 2, "Id", "t", r->id,
				     "State", "s", job_state_name(r->state));
}

static int write_removed(sd_bus_message *m, const struct job_record *r, const char *path)
{
	(void)r;
	return sd_bus_message_append(m, "oas", path, 1, JOB_INTERFACE);
}

static int write_changed(sd_bus_message *m, const struct job_record *r, const char *path)
{
	int e = sd_bus_message_append(m, "sa{sv}", JOB_INTERFACE, 1, "State", "s",
				      job_state_name(r->state));

	(void)path;
	return e < 0 ? e : vtable_append_changing(m, job_vtable);
}

static const struct job_signal signal_new = { MANAGER_INTERFACE, "JobNew", false, write_new };
static const struct job_signal signal_finished = { MANAGER_INTERFACE, "JobFinished", false,
						   write_finished };
static const struct job_signal signal_added = { "org.freedesktop.DBus.ObjectManager",
						"InterfacesAdded", false, write_added };
static const struct job_signal signal_removed = { "org.freedesktop.DBus.ObjectManager",
						  "InterfacesRemoved", false, write_removed };
static const struct job_signal signal_changed = { "org.freedesktop.DBus.Properties",
						  "PropertiesChanged", true, write_changed };

/* A signal that cannot be sent is lost to a client that may have gone; clients ask again by
 * themselves when they connect. */
static void send_to(struct link *l, const struct job_signal *s, const struct job_record *r)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	char path[JOB_PATH_MAX];
	int e;

	job_path(path, r->id);
	e = sd_bus_message_new_signal(l->conn, &m, s->of_job ? path : ROOT_PATH, s->interface,
				      s->member);
	if (e >= 0)
		e = s->write(m, r, path);
	if (e >= 0)
		(void)sd_bus_send(l->conn, m, NULL);
	link_sent(l, MESSAGE_BYTES_USUAL);
}

static void send_all(struct bus *b, const struct job_signal *s, const struct job_record *r)
{
	for (struct link *l = b->links; l; l = l->next)
		if (sd_bus_is_ready(l->conn) > 0 && !l->cutting_off &&
		    (!l->client || caller_may_see(&l->client->c, r)))
			send_to(l, s, r);
}

static void on_job_new(const struct job_record *r, void *userdata)
{
	struct bus *b = userdata;

	send_all(b, &signal_added, r);
	send_all(b, &signal_new, r);
}

static void on_job_changed(const struct job_record *r, void *userdata)
{
	struct bus *b = userdata;

	send_all(b, &signal_changed, r);
}

static void on_job_finished(const struct job_record *r, void *userdata)
{
	struct bus *b = userdata;

	send_all(b, &signal_changed, r);
	send_all(b, &signal_finished, r);
	send_all(b, &signal_removed, r);
}

static void on_daemon_changed(const char *property, void *userdata)
{
	struct bus *b = userdata;

	for (struct link *l = b->links; l; l = l->next) {
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
