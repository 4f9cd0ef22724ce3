/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices and spools: shown as they are when a client asks, the same to all clients. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"
#include "daemon/workers/pacers.h"
#include "base/array.h"
#include "base/fd.h"

/* Rates are taken between two snapshots: one so soon after another shows the same figures. */
#define SNAPSHOT_USEC (500 * USEC_PER_MSEC)

/* What an object is called on the way to it is its first field. */
static_assert(offsetof(struct device_view, name) == 0 && offsetof(struct spool_view, path) == 0 &&
		      offsetof(struct policy_view, name) == 0,
	      "views begin with their names");

void device_views_clear(struct bus *b)
{
	while (b->n_devices > 0)
		free(b->devices[--b->n_devices].name);
}

size_t bus_devices_snapshot(struct bus *b)
{
	struct pacer_view views[DEVICES_MOST];
	struct pacers *pacers = operation_pacers(b->operations);
	uint64_t now = now_usec();
	size_t n;

	if (b->devices_usec > 0 && now - b->devices_usec < SNAPSHOT_USEC)
		return b->n_devices;
	device_views_clear(b);
	b->devices_usec = now;
	n = pacers ? pacers_list(pacers, views, DEVICES_MOST) : 0;
	for (size_t i = 0; i < MIN(n, (size_t)DEVICES_MOST); i++) {
		const struct pacer_view *p = &views[i];
		const struct pacing_view *c = &p->controller;
		double seconds = (double)p->elapsed_usec / (double)USEC_PER_SEC;
		struct device_view d = {
			.name = strdup(p->devices ? p->devices : ""),
			.mode = c->urgent ? "urgent" : pacing_mode_name(c->mode),
			.observed = p->observed,
			.target_usec = c->target_usec,
			.sync_usec = c->quiet_sync_usec,
			.quantum_usec = c->quantum_usec,
			.entries_rate = seconds > 0 ? (double)p->entries / seconds : 0,
			.bytes_rate = seconds > 0 ? (double)p->bytes / seconds : 0,
			.owed_bytes = p->owed_bytes,
		};

		if (d.name)
			b->devices[b->n_devices++] = d;
	}
	return b->n_devices;
}

size_t bus_spools_snapshot(struct bus *b)
{
	size_t n = b->o.spools ? b->o.spools(b->spools, SPOOLS_MOST, b->o.userdata) : 0;

	return MIN(n, (size_t)SPOOLS_MOST);
}

/* ---- the kinds ---------------------------------------------------------------------------- */

static const struct view_kind {
	const char *prefix, *interface, *list;
	const struct field *fields;
	size_t (*snapshot)(struct bus *b);
	size_t offset, size; /* of the views, in struct bus; of each */
} kinds[] = {
	{ DEVICE_PREFIX, "org.reclaimd1.Device", "ListDevices", device_fields, bus_devices_snapshot,
	  offsetof(struct bus, devices), sizeof(struct device_view) },
	{ SPOOL_PREFIX, "org.reclaimd1.Spool", "ListSpools", spool_fields, bus_spools_snapshot,
	  offsetof(struct bus, spools), sizeof(struct spool_view) },
	{ POLICY_PREFIX, POLICY_INTERFACE, "ListPolicies", policy_fields, bus_policies_snapshot,
	  offsetof(struct bus, policies), sizeof(struct policy_view) },
};

static const char *view_name(const void *view)
{
	return *(const char *const *)view;
}

static void *view_at(struct bus *b, const struct view_kind *k, size_t i)
{
	return (char *)b + k->offset + i * k->size;
}

/* Of a path below one of the prefixes, or of such a prefix. */
static const struct view_kind *kind_of(const char *path)
{
	for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
		if (strncmp(path, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
			return &kinds[i];
	return NULL;
}

static void *view_find(const struct link *l, const struct view_kind *k, const char *path)
{
	_cleanup_free_ char *name = NULL;
	size_t n;

	if (!l->bus || !k || sd_bus_path_decode(path, k->prefix, &name) <= 0)
		return NULL;
	n = k->snapshot(l->bus);
	for (size_t i = 0; i < n; i++)
		if (strcmp(view_name(view_at(l->bus, k, i)), name) == 0)
			return view_at(l->bus, k, i);
	return NULL;
}

/* Calls for properties of policies are ours, as they may have to wait; their methods need to know
 * the link. */
static int find_view(sd_bus *conn, const char *path, const char *interface, void *userdata,
		     void **ret_found, sd_bus_error *error)
{
	const struct view_kind *k = kind_of(path);
	struct link *l = userdata;
	void *view = view_find(l, k, path);

	(void)conn;
	(void)interface;
	(void)error;
	if (view)
		*ret_found = k->fields == policy_fields ? l : view;
	return view != NULL;
}

/* The library also asks with the path of each object that is listed, as if it had such children. */
static int list_views(sd_bus *conn, const char *prefix, void *userdata, char ***ret_nodes,
		      sd_bus_error *error)
{
	const struct view_kind *k = kind_of(prefix);
	struct link *l = userdata;
	size_t n, added = 0;
	int r = 0;

	(void)conn;
	(void)error;
	if (!l->bus || !k || strcmp(prefix, k->prefix) != 0)
		return 0;
	n = k->snapshot(l->bus);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		char *path = NULL;

		r = sd_bus_path_encode(prefix, view_name(view_at(l->bus, k, i)), &path);
		if (r >= 0)
			r = strings_add(ret_nodes, &added, path);
	}
	return r;
}

static int get_property(sd_bus *conn, const char *path, const char *interface, const char *property,
			sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	const struct view_kind *k = kind_of(path);
	const struct field *f = k ? field_find(k->fields, property) : NULL;

	(void)conn;
	(void)interface;
	(void)error;
	if (k && k->fields == policy_fields)
		return -EOPNOTSUPP;
	return f ? message_append_field(reply, f, userdata) : -ENOENT;
}

static const sd_bus_vtable device_vtable[] = {
	SD_BUS_VTABLE_START(0),
	DEVICE_FIELDS(PROPERTY) SD_BUS_VTABLE_END,
};

static const sd_bus_vtable spool_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SPOOL_FIELDS(PROPERTY) SD_BUS_VTABLE_END,
};

const sd_bus_vtable policy_vtable[] = {
	SD_BUS_VTABLE_START(0),
	METHOD("Plan", NULL, "", "s", SD_BUS_PARAM(plan)),
	METHOD("Run", NULL, "", "to", SD_BUS_PARAM(id) SD_BUS_PARAM(job)),
	POLICY_FIELDS(PROPERTY) SD_BUS_VTABLE_END,
};

int views_export(struct link *l)
{
	static const sd_bus_vtable *const vtables[] = { device_vtable, spool_vtable,
							policy_vtable };
	int r = 0;

	for (size_t i = 0; i < ELEMENTSOF(kinds) && r >= 0; i++) {
		r = sd_bus_add_fallback_vtable(l->conn, NULL, kinds[i].prefix, kinds[i].interface,
					       vtables[i], find_view, l);
		if (r >= 0)
			r = sd_bus_add_node_enumerator(l->conn, NULL, kinds[i].prefix, list_views,
						       l);
	}
	return r;
}

/* ---- all of them -------------------------------------------------------------------------- */

int views_append_managed(struct bus *b, sd_bus_message *m)
{
	int r = 0;

	for (const struct view_kind *k = kinds; k < kinds + ELEMENTSOF(kinds); k++) {
		size_t n = k->snapshot(b);

		for (size_t i = 0; r >= 0 && i < n; i++) {
			_cleanup_free_ char *path = NULL;
			const void *view = view_at(b, k, i);

			r = sd_bus_path_encode(k->prefix, view_name(view), &path);
			if (r >= 0)
				r = message_append_managed(m, path, k->interface, k->fields, view);
		}
	}
	return r;
}

static void list(void *userdata)
{
	struct bus_request *q = userdata;
	const struct view_kind *k = kinds;
	size_t n;

	if (!q->bus) {
		(void)request_refuse(q, ERROR_BUSY, "The daemon is stopping.");
		request_answer(NULL, q);
		return;
	}
	while (strcmp(k->list, q->call->member) != 0)
		k++;
	n = k->snapshot(q->bus);
	q->error = request_list(q, k->fields);
	for (size_t i = 0; q->error >= 0 && i < n; i++)
		q->error = message_append_struct(q->reply, k->fields, view_at(q->bus, k, i));
	request_listed(NULL, q);
}

static int call_list(struct bus_request *q)
{
	list(q);
	return 0;
}

static int append_latency(const struct device_latency *l, void *userdata)
{
	struct bus_request *q = userdata;

	return message_append_struct(q->reply, latency_fields, l);
}

static int call_list_latencies(struct bus_request *q)
{
	struct pacers *pacers = operation_pacers(q->bus->operations);

	q->error = request_list(q, latency_fields);
	if (q->error >= 0 && pacers)
		q->error = pacers_latencies(pacers, append_latency, q);
	request_listed(NULL, q);
	return 0;
}

static int call_list_policies(struct bus_request *q)
{
	policy_timers_update(q->bus, list, q);
	return 0;
}

int views_append_properties(struct bus_request *q, const char *property)
{
	const char *path = sd_bus_message_get_path(q->m);
	const struct view_kind *k = kind_of(path);
	const struct field *f = property && k ? field_find(k->fields, property) : NULL;
	const void *view = view_find(q->link, k, path);
	int r;

	if (!view)
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "There is no such object.");
	if (property && !f)
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "It has no such property.");
	r = request_reply(q);
	if (r < 0)
		return r;
	return f ? message_append_variant(q->reply, f, view)
		 : message_append_properties(q->reply, k->fields, view);
}

const struct call view_calls[] = {
	{ MANAGER_INTERFACE, "ListSpools", call_list, 0 },
	{ MANAGER_INTERFACE, "ListDevices", call_list, 0 },
	{ MANAGER_INTERFACE, "ListLatencies", call_list_latencies, 0 },
	{ MANAGER_INTERFACE, "ListPolicies", call_list_policies, 0 },
	{ 0 },
};
