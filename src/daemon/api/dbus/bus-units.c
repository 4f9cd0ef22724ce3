/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Units that the service manager is asked to start. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"

#define MANAGER_NAME "org.freedesktop.systemd1"
#define MANAGER_OBJECT "/org/freedesktop/systemd1"
/* It answers when the unit is in its queue. */
#define PATIENCE_USEC (90 * USEC_PER_SEC)

/* A unit that is asked for. */
struct unit_start {
	uint64_t job;
	char name[];
};

static void tell_failed(uint64_t job, const char *unit, const char *why)
{
	log_line(LOG_ERR, "Job %" PRIu64 ": its hook %s could not be started: %s", job, unit, why);
}

static int on_started(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);
	const struct unit_start *u = userdata;

	(void)error;
	if (e)
		tell_failed(u->job, u->name, e->message ? e->message : e->name);
	return 0;
}

static int ask(sd_bus *conn, const struct unit_start *u, sd_bus_slot **ret)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	int r = sd_bus_message_new_method_call(conn, &m, MANAGER_NAME, MANAGER_OBJECT,
					       MANAGER_NAME ".Manager", "StartUnit");

	if (r >= 0)
		r = sd_bus_message_append(m, "ss", u->name, "replace");
	if (r >= 0)
		r = sd_bus_message_set_auto_start(m, false);
	return r < 0 ? r : sd_bus_call_async(conn, ret, m, on_started, (void *)u, PATIENCE_USEC);
}

void bus_start_unit(struct bus *b, const char *unit, const struct job_record *r)
{
	sd_bus *conn = system_link_connection(b->system);
	struct unit_start *u = conn ? malloc(sizeof(*u) + strlen(unit) + 1) : NULL;
	sd_bus_slot *slot = NULL;
	int error;

	if (!u) {
		tell_failed(r->id, unit,
			    conn ? strerror(ENOMEM) : "there is no connection to the message bus");
		return;
	}
	u->job = r->id;
	memcpy(u->name, unit, strlen(unit) + 1);
	error = ask(conn, u, &slot);
	if (error < 0) {
		tell_failed(r->id, unit, strerror(-error));
		free(u);
		return;
	}
	/* Nothing waits for it: it goes with its answer, or with the connection. */
	(void)sd_bus_slot_set_destroy_callback(slot, free);
	(void)sd_bus_slot_set_floating(slot, true);
	(void)sd_bus_slot_unref(slot);
}
