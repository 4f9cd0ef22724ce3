/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The object of the daemon itself: what it is, and what acts on jobs by their numbers. */
#include <errno.h>
#include <string.h>

#include "bus-state.h"

static int get_version(sd_bus *conn, const char *path, const char *interface, const char *property,
		       sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	(void)conn;
	(void)path;
	(void)interface;
	(void)property;
	(void)userdata;
	(void)error;
	return sd_bus_message_append(reply, "s", RECLAIM_VERSION);
}

static int get_features(sd_bus *conn, const char *path, const char *interface, const char *property,
			sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	static const char *const none[] = { NULL };
	struct link *l = userdata;

	(void)conn;
	(void)path;
	(void)interface;
	(void)property;
	(void)error;
	return sd_bus_message_append_strv(
		reply, (char **)(l->bus && l->bus->o.features ? l->bus->o.features : none));
}

static int get_view(sd_bus *conn, const char *path, const char *interface, const char *property,
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
	operation_view(l->bus->operations, &v);
	if (strcmp(property, "Paused") == 0)
		return sd_bus_message_append(reply, "b", v.paused);
	if (strcmp(property, "ConfigurationError") == 0)
		return message_append_text(reply, v.configuration_error);
	if (strcmp(property, "StoreError") == 0)
		return message_append_text(reply, v.store_error);
	if (strcmp(property, "Jobs") == 0)
		return message_append_states(reply, v.jobs, 0, JOB_DONE);
	if (strcmp(property, "EntriesFreed") == 0)
		return sd_bus_message_append(reply, "t", v.entries_freed);
	if (strcmp(property, "Orphans") == 0)
		return sd_bus_message_append(reply, "t", v.orphans);
	return sd_bus_message_append(reply, "t", v.bytes_freed);
}

/* ---- calls -------------------------------------------------------------------------------- */

static int call_on_ids(struct bus_request *q, job_operation_t operation)
{
	const uint64_t *ids;
	size_t n;
	int r = arguments_ids(q, q->m, &ids, &n);

	return r < 0 ? r : request_act(q, operation, ids, n);
}

static int call_cancel(struct bus_request *q)
{
	return call_on_ids(q, operation_cancel);
}

static int call_pause(struct bus_request *q)
{
	return call_on_ids(q, operation_pause);
}

static int call_resume(struct bus_request *q)
{
	return call_on_ids(q, operation_resume);
}

static int call_pause_all(struct bus_request *q)
{
	operation_pause_all(q->bus->operations, &q->caller, true, request_decide, q);
	return 0;
}

static int call_resume_all(struct bus_request *q)
{
	operation_pause_all(q->bus->operations, &q->caller, false, request_decide, q);
	return 0;
}

static int call_reload(struct bus_request *q)
{
	operation_reload(q->bus->operations, &q->caller, request_decide, q);
	return 0;
}

const struct call manager_calls[] = {
	{ MANAGER_INTERFACE, "Cancel", call_cancel },
	{ MANAGER_INTERFACE, "Pause", call_pause },
	{ MANAGER_INTERFACE, "Resume", call_resume },
	{ MANAGER_INTERFACE, "PauseAll", call_pause_all },
	{ MANAGER_INTERFACE, "ResumeAll", call_resume_all },
	{ MANAGER_INTERFACE, "Reload", call_reload },
	{ 0 },
};

/* Every user may call; the operations decide what is allowed. */
#define METHOD(member, in, in_names, out, out_names)                                               \
	SD_BUS_METHOD_WITH_NAMES(member, in, in_names, out, out_names, request_begin,              \
				 SD_BUS_VTABLE_UNPRIVILEGED)

const sd_bus_vtable manager_vtable[] = {
	SD_BUS_VTABLE_START(0),
	METHOD("SubmitFiles", "aha(uay)a{sv}",
	       SD_BUS_PARAM(parents) SD_BUS_PARAM(entries) SD_BUS_PARAM(options), "to",
	       SD_BUS_PARAM(id) SD_BUS_PARAM(job)),
	METHOD("SubmitLists", "a(hh)a{sv}", SD_BUS_PARAM(lists) SD_BUS_PARAM(options), "tott",
	       SD_BUS_PARAM(id) SD_BUS_PARAM(job) SD_BUS_PARAM(accepted) SD_BUS_PARAM(missing)),
	METHOD("Submit", "aaya{sv}", SD_BUS_PARAM(paths) SD_BUS_PARAM(options), "to",
	       SD_BUS_PARAM(id) SD_BUS_PARAM(job)),
	METHOD("GetJob", "t", SD_BUS_PARAM(id), "o", SD_BUS_PARAM(job)),
	METHOD("ListJobs", "a{sv}", SD_BUS_PARAM(filter), "a(tsussayttttttttt)",
	       SD_BUS_PARAM(jobs)),
	METHOD("ListJobsPacked", "a{sv}", SD_BUS_PARAM(filter), "atay",
	       SD_BUS_PARAM(numbers) SD_BUS_PARAM(texts)),
	METHOD("Cancel", "at", SD_BUS_PARAM(ids), NULL, ""),
	METHOD("Pause", "at", SD_BUS_PARAM(ids), NULL, ""),
	METHOD("Resume", "at", SD_BUS_PARAM(ids), NULL, ""),
	METHOD("PauseAll", NULL, "", NULL, ""),
	METHOD("ResumeAll", NULL, "", NULL, ""),
	METHOD("Restore", "ta{sv}", SD_BUS_PARAM(id) SD_BUS_PARAM(options), NULL, ""),
	METHOD("ListSpools", NULL, "", "a(ayssttt)", SD_BUS_PARAM(spools)),
	METHOD("ListDevices", NULL, "", "a(ssbtttdd)", SD_BUS_PARAM(devices)),
	METHOD("Reload", NULL, "", NULL, ""),
	SD_BUS_SIGNAL_WITH_NAMES("JobNew", "to", SD_BUS_PARAM(id) SD_BUS_PARAM(job), 0),
	SD_BUS_SIGNAL_WITH_NAMES("JobFinished", "tos",
				 SD_BUS_PARAM(id) SD_BUS_PARAM(job) SD_BUS_PARAM(state), 0),
	SD_BUS_PROPERTY("Version", "s", get_version, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("Features", "as", get_features, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("Paused", "b", get_view, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
	SD_BUS_PROPERTY("ConfigurationError", "s", get_view, 0,
			SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
	SD_BUS_PROPERTY("StoreError", "s", get_view, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
	SD_BUS_PROPERTY("Orphans", "t", get_view, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
	SD_BUS_PROPERTY("Jobs", "a{st}", get_view, 0, 0),
	SD_BUS_PROPERTY("EntriesFreed", "t", get_view, 0, 0),
	SD_BUS_PROPERTY("BytesFreed", "t", get_view, 0, 0),
	SD_BUS_PROPERTY("JobsFinished", "a{st}", totals_get, 0, 0),
	SD_BUS_PROPERTY("Interruptions", "t", totals_get, 0, 0),
	SD_BUS_PROPERTY("Errors", "a{st}", totals_get, 0, 0),
	SD_BUS_PROPERTY("LatencyBounds", "at", totals_get, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("DeviceTotals", "a(stta{st}(tat)(tat)(tat))", totals_get, 0, 0),
	SD_BUS_VTABLE_END,
};
