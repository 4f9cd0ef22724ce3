/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What has happened since the daemon was started, for collectors of metrics (reclaimctl metrics).
 * The same for all clients: no names, no users. */
#include <errno.h>
#include <string.h>

#include "bus-state.h"
#include "daemon/workers/pacers.h"

static int append_errors(sd_bus_message *m, const struct daemon_view *v)
{
	int r = sd_bus_message_open_container(m, 'a', "{st}");

	for (int error = 0; r >= 0 && error < ERROR_KINDS; error++) {
		const char *name = error > 0 ? strerrorname_np(error) : "other";

		if (v->errors[error] > 0 && name)
			r = sd_bus_message_append(m, "{st}", name, v->errors[error]);
	}
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_histogram(sd_bus_message *m, const struct histogram *h)
{
	int r = sd_bus_message_open_container(m, 'r', "tat");

	if (r >= 0)
		r = sd_bus_message_append(m, "t", h->sum_usec);
	if (r >= 0)
		r = sd_bus_message_append_array(m, 't', h->counts, sizeof(h->counts));
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_backoffs(sd_bus_message *m, const struct pacing_totals *t)
{
	int r = sd_bus_message_open_container(m, 'a', "{st}");

	for (enum pacing_backoff b = 0; r >= 0 && b < PACING_BACKOFFS; b++)
		r = sd_bus_message_append(m, "{st}", pacing_backoff_name(b), t->backoffs[b]);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_device(sd_bus_message *m, const struct device_totals *d)
{
	int r = sd_bus_message_open_container(m, 'r', "stta{st}(tat)(tat)(tat)");

	if (r >= 0)
		r = sd_bus_message_append(m, "stt", d->key, d->totals.entries, d->totals.bytes);
	if (r >= 0)
		r = append_backoffs(m, &d->totals);
	if (r >= 0)
		r = append_histogram(m, &d->totals.reads);
	if (r >= 0)
		r = append_histogram(m, &d->totals.syncs);
	if (r >= 0)
		r = append_histogram(m, &d->totals.quanta);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_devices(sd_bus_message *m, struct operations *operations)
{
	struct pacers *pacers = operation_pacers(operations);
	struct device_totals v[PACERS_PAST_MOST];
	size_t n = pacers ? pacers_totals(pacers, v, ELEMENTSOF(v)) : 0;
	int r = sd_bus_message_open_container(m, 'a', "(stta{st}(tat)(tat)(tat))");

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = append_device(m, &v[i]);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

int totals_get(sd_bus *conn, const char *path, const char *interface, const char *property,
	       sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	struct link *l = userdata;
	struct daemon_view v = { 0 };

	(void)conn;
	(void)path;
	(void)interface;
	(void)error;
	if (!l->bus)
		return -ESHUTDOWN;
	if (strcmp(property, "LatencyBounds") == 0)
		return sd_bus_message_append_array(reply, 't', histogram_bounds_usec,
						   sizeof(histogram_bounds_usec));
	if (strcmp(property, "DeviceTotals") == 0)
		return append_devices(reply, l->bus->operations);
	operation_view(l->bus->operations, &v);
	if (strcmp(property, "JobsFinished") == 0)
		return message_append_states(reply, v.finished, JOB_DONE, JOB_STATES);
	if (strcmp(property, "Errors") == 0)
		return append_errors(reply, &v);
	return sd_bus_message_append(reply, "t", v.interruptions);
}
