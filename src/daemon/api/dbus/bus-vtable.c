/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Our own vtables read by ourselves: sd-bus only gets properties that are there at once, and jobs
 * that have ended must be read from the store first. */
#include <errno.h>
#include <string.h>

#include "bus-state.h"

static const struct {
	const char *interface;
	const sd_bus_vtable *vtable;
} vtables[] = {
	{ MANAGER_INTERFACE, manager_vtable },
	{ JOB_INTERFACE, job_vtable },
};

static bool is_end(const sd_bus_vtable *v)
{
	return v->type == _SD_BUS_VTABLE_END;
}

const char *vtable_signature(const char *interface, const char *member)
{
	for (size_t i = 0; interface && member && i < ELEMENTSOF(vtables); i++) {
		if (strcmp(vtables[i].interface, interface) != 0)
			continue;
		for (const sd_bus_vtable *v = vtables[i].vtable; !is_end(v); v++)
			if (v->type == _SD_BUS_VTABLE_METHOD &&
			    strcmp(v->x.method.member, member) == 0)
				return v->x.method.signature ? v->x.method.signature : "";
	}
	return NULL;
}

static int append_variant(sd_bus_message *m, const sd_bus_vtable *v, const char *interface,
			  void *userdata)
{
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	int r = sd_bus_message_open_container(m, 'v', v->x.property.signature);

	if (r >= 0)
		r = v->x.property.get(sd_bus_message_get_bus(m), NULL, interface,
				      v->x.property.member, m,
				      (char *)userdata + v->x.property.offset, &error);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

int vtable_append_property(sd_bus_message *m, const sd_bus_vtable *v, const char *interface,
			   const char *name, void *userdata)
{
	for (; !is_end(v); v++)
		if (v->type == _SD_BUS_VTABLE_PROPERTY && strcmp(v->x.property.member, name) == 0)
			return append_variant(m, v, interface, userdata);
	return -ENOENT;
}

int vtable_append_all(sd_bus_message *m, const sd_bus_vtable *v, const char *interface,
		      void *userdata)
{
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	for (; r >= 0 && !is_end(v); v++) {
		if (v->type != _SD_BUS_VTABLE_PROPERTY)
			continue;
		r = sd_bus_message_open_container(m, 'e', "sv");
		if (r >= 0)
			r = sd_bus_message_append(m, "s", v->x.property.member);
		if (r >= 0)
			r = append_variant(m, v, interface, userdata);
		if (r >= 0)
			r = sd_bus_message_close_container(m);
	}
	return r < 0 ? r : sd_bus_message_close_container(m);
}

int vtable_append_managed(sd_bus_message *m, const char *path, const sd_bus_vtable *v,
			  const char *interface, void *userdata)
{
	int r = sd_bus_message_open_container(m, 'e', "oa{sa{sv}}");

	if (r >= 0)
		r = sd_bus_message_append(m, "o", path);
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "{sa{sv}}");
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'e', "sa{sv}");
	if (r >= 0)
		r = sd_bus_message_append(m, "s", interface);
	if (r >= 0)
		r = vtable_append_all(m, v, interface, userdata);
	for (unsigned depth = 0; r >= 0 && depth < 3; depth++)
		r = sd_bus_message_close_container(m);
	return r;
}

int vtable_append_changing(sd_bus_message *m, const sd_bus_vtable *v)
{
	int r = sd_bus_message_open_container(m, 'a', "s");

	for (; r >= 0 && !is_end(v); v++)
		if (v->type == _SD_BUS_VTABLE_PROPERTY &&
		    (v->flags & SD_BUS_VTABLE_PROPERTY_EMITS_INVALIDATION))
			r = sd_bus_message_append(m, "s", v->x.property.member);
	return r < 0 ? r : sd_bus_message_close_container(m);
}
