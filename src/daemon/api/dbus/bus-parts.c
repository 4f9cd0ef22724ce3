/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus.h"

#include <errno.h>
#include <stdlib.h>

#include "bus-state.h"

static void bus_freep(struct bus **b)
{
	(void)bus_free(*b);
}

int bus_new(struct bus **ret, struct operations *operations, sd_event *e,
	    const struct bus_options *o)
{
	_cleanup_(bus_freep) struct bus *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return -ENOMEM;
	b->operations = operations;
	b->event = sd_event_ref(e);
	b->o = *o;
	r = quota_new(&b->quota);
	if (r >= 0)
		r = policy_timers_new(&b->timers);
	if (r >= 0)
		r = sd_id128_randomize(&b->id);
	if (r >= 0 && o->socket)
		r = bus_socket_new(&b->socket, b, o->socket, &speech_private, b);
	if (r >= 0 && !o->no_bus)
		r = system_link_new(&b->system, b);
	if (r < 0)
		return r;
	signals_listen(b);
	*ret = b;
	b = NULL;
	return 0;
}

struct bus *bus_free(struct bus *b)
{
	struct bus_request *q;

	if (!b)
		return NULL;
	signals_ignore(b);
	b->socket = bus_socket_free(b->socket);
	b->system = system_link_free(b->system);
	while (LIST_FIRST(&b->links))
		link_cut(LIST_FIRST(&b->links));
	while ((q = LIST_FIRST(&b->requests))) {
		LIST_REMOVE(q, of_bus);
		q->bus = NULL;
	}
	(void)quota_free(b->quota);
	(void)policy_timers_free(b->timers);
	device_views_clear(b);
	(void)sd_event_source_disable_unref(b->telling);
	(void)sd_event_unref(b->event);
	free(b);
	return NULL;
}
