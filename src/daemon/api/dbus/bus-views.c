/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices and spools: shown as they are when a client asks, the same to all clients. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"
#include "daemon/workers/pacers.h"
#include "base/fd.h"

/* Rates are taken between two snapshots: one so soon after another shows the same figures. */
#define SNAPSHOT_USEC (500 * USEC_PER_MSEC)

struct device_views *device_views_free(struct device_views *v)
{
	for (size_t i = 0; v && i < v->n; i++)
		free(v->v[i].name);
	free(v);
	return NULL;
}

static int device_view_set(struct device_view *d, const struct pacer_view *p)
{
	const struct pacing_view *c = &p->controller;
	double seconds = (double)p->elapsed_usec / (double)USEC_PER_SEC;

	*d = (struct device_view){
		.name = strdup(p->devices ? p->devices : ""),
		.mode = c->urgent ? "urgent" : pacing_mode_name(c->mode),
		.observed = p->observed,
		.target_usec = c->target_usec,
		.sync_usec = c->quiet_sync_usec,
		.quantum_usec = c->quantum_usec,
		.entries_rate = seconds > 0 ? (double)p->entries / seconds : 0,
		.bytes_rate = seconds > 0 ? (double)p->bytes / seconds : 0,
	};
	return d->name ? 0 : -ENOMEM;
}

const struct device_views *bus_devices_snapshot(struct bus *b)
{
	struct pacer_view views[DEVICES_MOST];
	struct pacers *pacers = operation_pacers(b->operations);
	uint64_t now = now_usec();
	struct device_views *v;
	size_t n;

	if (b->devices && now - b->devices->snapshot_usec < SNAPSHOT_USEC)
		return b->devices;
	b->devices = device_views_free(b->devices);
	v = calloc(1, sizeof(*v));
	if (!v)
		return NULL;
	n = pacers ? pacers_list(pacers, views, DEVICES_MOST) : 0;
	for (size_t i = 0; i < n && i < DEVICES_MOST; i++)
		if (device_view_set(&v->v[v->n], &views[i]) == 0)
			v->n++;
	v->snapshot_usec = now;
	b->devices = v;
	return v;
}

size_t bus_spools_snapshot(struct bus *b, struct spool_view *views)
{
	size_t n = b->o.spools ? b->o.spools(views, SPOOLS_MOST, b->o.userdata) : 0;

	return MIN(n, (size_t)SPOOLS_MOST);
}

/* ---- objects found by their path ---------------------------------------------------------- */

static int find_device(sd_bus *conn, const char *path, const char *interface, void *userdata,
		       void **ret_found, sd_bus_error *error)
{
	_cleanup_free_ char *name = NULL;
	const struct device_views *v;
	struct link *l = userdata;

	(void)conn;
	(void)interface;
	(void)error;
	if (!l->bus || sd_bus_path_decode(path, DEVICE_PREFIX, &name) <= 0)
		return 0;
	v = bus_devices_snapshot(l->bus);
	for (size_t i = 0; v && i < v->n; i++) {
		if (strcmp(v->v[i].name, name) != 0)
			continue;
		*ret_found = (void *)&v->v[i];
		return 1;
	}
	return 0;
}

/* A spool has no object of its own here: a request for it gets the link, and finds it again. */
static int find_spool(sd_bus *conn, const char *path, const char *interface, void *userdata,
		      void **ret_found, sd_bus_error *error)
{
	_cleanup_free_ char *name = NULL;
	struct spool_view views[SPOOLS_MOST];
	struct link *l = userdata;
	size_t n;

	(void)conn;
	(void)interface;
	(void)error;
	if (!l->bus || sd_bus_path_decode(path, SPOOL_PREFIX, &name) <= 0)
		return 0;
	n = bus_spools_snapshot(l->bus, views);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(views[i].path, name) != 0)
			continue;
		l->bus->spool = views[i];
		*ret_found = &l->bus->spool;
		return 1;
	}
	return 0;
}

static int add_child(char ***paths, size_t *n, const char *prefix, const char *name)
{
	char **v = reallocarray(*paths, *n + 2, sizeof(*v));

	if (!v)
		return -ENOMEM;
	*paths = v;
	v[*n + 1] = NULL;
	return sd_bus_path_encode(prefix, name, &v[(*n)++]);
}

/* The library also asks with the path of each object that is listed, as if it had such children. */
static bool is_object(const char *prefix, const char *parent)
{
	size_t len = strlen(parent);

	return strncmp(prefix, parent, len) == 0 && prefix[len] == '/';
}

static int list_devices(sd_bus *conn, const char *prefix, void *userdata, char ***ret_nodes,
			sd_bus_error *error)
{
	const struct device_views *v;
	struct link *l = userdata;
	size_t n = 0;
	int r = 0;

	(void)conn;
	(void)error;
	v = l->bus && !is_object(prefix, DEVICE_PREFIX) ? bus_devices_snapshot(l->bus) : NULL;
	for (size_t i = 0; v && r >= 0 && i < v->n; i++)
		r = add_child(ret_nodes, &n, DEVICE_PREFIX, v->v[i].name);
	return r;
}

static int list_spools(sd_bus *conn, const char *prefix, void *userdata, char ***ret_nodes,
		       sd_bus_error *error)
{
	struct spool_view views[SPOOLS_MOST];
	struct link *l = userdata;
	size_t n = 0, found = 0;
	int r = 0;

	(void)conn;
	(void)error;
	if (l->bus && !is_object(prefix, SPOOL_PREFIX))
		found = bus_spools_snapshot(l->bus, views);
	for (size_t i = 0; r >= 0 && i < found; i++)
		r = add_child(ret_nodes, &n, SPOOL_PREFIX, views[i].path);
	return r;
}

int views_export(struct link *l)
{
	int r = sd_bus_add_fallback_vtable(l->conn, NULL, DEVICE_PREFIX, DEVICE_INTERFACE,
					   device_vtable, find_device, l);

	if (r >= 0)
		r = sd_bus_add_node_enumerator(l->conn, NULL, DEVICE_PREFIX, list_devices, l);
	if (r >= 0)
		r = sd_bus_add_fallback_vtable(l->conn, NULL, SPOOL_PREFIX, SPOOL_INTERFACE,
					       spool_vtable, find_spool, l);
	if (r >= 0)
		r = sd_bus_add_node_enumerator(l->conn, NULL, SPOOL_PREFIX, list_spools, l);
	return r;
}

/* ---- all of them -------------------------------------------------------------------------- */

static int append_managed(sd_bus_message *m, const char *prefix, const char *name,
			  const sd_bus_vtable *v, const char *interface, void *userdata)
{
	_cleanup_free_ char *path = NULL;
	int r = sd_bus_path_encode(prefix, name, &path);

	return r < 0 ? r : vtable_append_managed(m, path, v, interface, userdata);
}

int views_append_managed(struct bus *b, sd_bus_message *m)
{
	const struct device_views *v = bus_devices_snapshot(b);
	struct spool_view views[SPOOLS_MOST];
	size_t n = bus_spools_snapshot(b, views);
	int r = 0;

	for (size_t i = 0; v && r >= 0 && i < v->n; i++)
		r = append_managed(m, DEVICE_PREFIX, v->v[i].name, device_vtable, DEVICE_INTERFACE,
				   (void *)&v->v[i]);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = append_managed(m, SPOOL_PREFIX, views[i].path, spool_vtable, SPOOL_INTERFACE,
				   &views[i]);
	return r;
}

static int call_list_spools(struct bus_request *q)
{
	struct spool_view views[SPOOLS_MOST];
	size_t n = bus_spools_snapshot(q->bus, views);
	int r = request_reply(q);

	if (r >= 0)
		r = sd_bus_message_open_container(q->reply, 'a', "(ayssttt)");
	for (size_t i = 0; r >= 0 && i < n; i++) {
		const struct spool_view *s = &views[i];

		r = sd_bus_message_open_container(q->reply, 'r', "ayssttt");
		if (r >= 0)
			r = message_append_bytes(q->reply, s->path);
		if (r >= 0)
			r = sd_bus_message_append(q->reply, "s", s->state_name);
		if (r >= 0)
			r = message_append_text(q->reply, s->message);
		if (r >= 0)
			r = sd_bus_message_append(q->reply, "ttt", s->settle_usec, s->undo_usec,
						  s->waiting);
		if (r >= 0)
			r = sd_bus_message_close_container(q->reply);
	}
	if (r >= 0)
		r = sd_bus_message_close_container(q->reply);
	if (r >= 0)
		request_answer(NULL, q);
	return r < 0 ? r : 0;
}

static int call_list_devices(struct bus_request *q)
{
	const struct device_views *v = bus_devices_snapshot(q->bus);
	int r = request_reply(q);

	if (r >= 0)
		r = sd_bus_message_open_container(q->reply, 'a', "(ssbtttdd)");
	for (size_t i = 0; v && r >= 0 && i < v->n; i++) {
		const struct device_view *d = &v->v[i];

		r = sd_bus_message_append(q->reply, "(ssbtttdd)", d->name, d->mode, d->observed,
					  d->target_usec, d->sync_usec, d->quantum_usec,
					  d->entries_rate, d->bytes_rate);
	}
	if (r >= 0)
		r = sd_bus_message_close_container(q->reply);
	if (r >= 0)
		request_answer(NULL, q);
	return r < 0 ? r : 0;
}

const struct call view_calls[] = {
	{ MANAGER_INTERFACE, "ListSpools", call_list_spools },
	{ MANAGER_INTERFACE, "ListDevices", call_list_devices },
	{ 0 },
};

/* ---- properties --------------------------------------------------------------------------- */

static int get_path(sd_bus *conn, const char *path, const char *interface, const char *property,
		    sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	(void)conn;
	(void)path;
	(void)interface;
	(void)property;
	(void)error;
	return message_append_bytes(reply, *(const char *const *)userdata);
}

static int get_text(sd_bus *conn, const char *path, const char *interface, const char *property,
		    sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	(void)conn;
	(void)path;
	(void)interface;
	(void)property;
	(void)error;
	return message_append_text(reply, *(const char *const *)userdata);
}

/* Any of the basic types that is no string, as the vtable says. */
#define GET_BASIC(name, type)                                                                      \
	static int name(sd_bus *conn, const char *path, const char *interface,                     \
			const char *property, sd_bus_message *reply, void *userdata,               \
			sd_bus_error *error)                                                       \
	{                                                                                          \
		(void)conn;                                                                        \
		(void)path;                                                                        \
		(void)interface;                                                                   \
		(void)property;                                                                    \
		(void)error;                                                                       \
		return sd_bus_message_append_basic(reply, type, userdata);                         \
	}
GET_BASIC(get_bool, 'b')
GET_BASIC(get_number, 't')
GET_BASIC(get_rate, 'd')

#define DEVICE(name, type, get, field)                                                             \
	SD_BUS_PROPERTY(name, type, get, offsetof(struct device_view, field), 0)
#define SPOOL(name, type, get, field)                                                              \
	SD_BUS_PROPERTY(name, type, get, offsetof(struct spool_view, field), 0)

const sd_bus_vtable device_vtable[] = {
	SD_BUS_VTABLE_START(0),
	DEVICE("Name", "s", get_text, name),
	DEVICE("Mode", "s", get_text, mode),
	DEVICE("Observed", "b", get_bool, observed),
	DEVICE("LatencyTarget", "t", get_number, target_usec),
	DEVICE("SyncLatency", "t", get_number, sync_usec),
	DEVICE("PieceCost", "t", get_number, quantum_usec),
	DEVICE("EntriesPerSecond", "d", get_rate, entries_rate),
	DEVICE("BytesPerSecond", "d", get_rate, bytes_rate),
	SD_BUS_VTABLE_END,
};

const sd_bus_vtable spool_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SPOOL("Path", "ay", get_path, path),
	SPOOL("State", "s", get_text, state_name),
	SPOOL("Message", "s", get_text, message),
	SPOOL("Settle", "t", get_number, settle_usec),
	SPOOL("Undo", "t", get_number, undo_usec),
	SPOOL("Waiting", "t", get_number, waiting),
	SD_BUS_VTABLE_END,
};
