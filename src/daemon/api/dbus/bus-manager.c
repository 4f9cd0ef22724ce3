/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The object of the daemon itself: what it is, and what acts on jobs by their numbers. */
#include <errno.h>
#include <string.h>

#include "bus-state.h"
#include "daemon/workers/pacers.h"

static int get_property(sd_bus *conn, const char *path, const char *interface, const char *property,
			sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	const struct field *f = field_find(status_fields, property);
	struct link *l = userdata;
	struct daemon_view v;

	(void)conn;
	(void)path;
	(void)interface;
	(void)error;
	if (!l->bus)
		return -ESHUTDOWN;
	if (!f)
		f = field_find(metrics_fields, property);
	operation_view(l->bus->operations, &v);
	return f ? message_append_field(reply, f, &v) : -ENOENT;
}

static int get_totals(sd_bus *conn, const char *path, const char *interface, const char *property,
		      sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	struct link *l = userdata;
	struct pacers *pacers = l->bus ? operation_pacers(l->bus->operations) : NULL;
	struct device_totals v[PACERS_PAST_MOST];
	size_t n = pacers ? pacers_totals(pacers, v, ELEMENTSOF(v)) : 0;
	int r = sd_bus_message_open_container(reply, 'a', "(stta{st}(tat)(tat)(tat)t(tat))");

	(void)conn;
	(void)path;
	(void)interface;
	(void)property;
	(void)error;
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = message_append_struct(reply, totals_fields, &v[i]);
	return r < 0 ? r : sd_bus_message_close_container(reply);
}

/* ---- calls -------------------------------------------------------------------------------- */

/* On the job whose object is called, or on those that are named. */
static int call_act(struct bus_request *q)
{
	int r = 0;

	q->ids = &q->job;
	q->n_ids = q->call->act <= ACT_RESUME;
	if (strcmp(q->call->interface, JOB_INTERFACE) == 0)
		q->job = job_path_parse(sd_bus_message_get_path(q->m));
	else if (q->call->act <= ACT_RESUME)
		r = arguments_ids(q, q->m, &q->ids, &q->n_ids);
	if (r >= 0)
		operation_act(q->bus->operations, &q->caller, q->call->act, q->ids, q->n_ids,
			      request_decide, q);
	return r;
}

static int call_change(struct bus_request *q)
{
	struct job_change to = { .has_priority = strcmp(q->call->member, "SetPriority") == 0 };
	int r = 0;

	q->ids = &q->job;
	q->n_ids = 1;
	if (strcmp(q->call->interface, JOB_INTERFACE) == 0)
		q->job = job_path_parse(sd_bus_message_get_path(q->m));
	else
		r = arguments_ids(q, q->m, &q->ids, &q->n_ids);
	to.has_deadline = !to.has_priority;
	if (r >= 0)
		r = to.has_priority ? arguments_priority(q, q->m, &to.priority)
				    : sd_bus_message_read(q->m, "t", &to.deadline_usec);
	if (r >= 0)
		operation_change(q->bus->operations, &q->caller, &to, q->ids, q->n_ids,
				 request_decide, q);
	return r;
}

static int call_settle(struct bus_request *q)
{
	uint64_t entries, bytes;
	int fd, r = sd_bus_message_read(q->m, "htt", &fd, &entries, &bytes);

	if (r >= 0)
		r = arguments_directory(q, fd, "descriptor", 0);
	if (r >= 0)
		operation_settle(q->bus->operations, fd, entries, bytes, request_answer, q);
	return r;
}

const struct call manager_calls[] = {
	{ MANAGER_INTERFACE, "Cancel", call_act, ACT_CANCEL },
	{ MANAGER_INTERFACE, "Pause", call_act, ACT_PAUSE },
	{ MANAGER_INTERFACE, "Resume", call_act, ACT_RESUME },
	{ JOB_INTERFACE, "Cancel", call_act, ACT_CANCEL },
	{ JOB_INTERFACE, "Pause", call_act, ACT_PAUSE },
	{ JOB_INTERFACE, "Resume", call_act, ACT_RESUME },
	{ MANAGER_INTERFACE, "SetPriority", call_change, 0 },
	{ MANAGER_INTERFACE, "SetDeadline", call_change, 0 },
	{ JOB_INTERFACE, "SetPriority", call_change, 0 },
	{ JOB_INTERFACE, "SetDeadline", call_change, 0 },
	{ MANAGER_INTERFACE, "PauseAll", call_act, ACT_PAUSE_ALL },
	{ MANAGER_INTERFACE, "ResumeAll", call_act, ACT_RESUME_ALL },
	{ MANAGER_INTERFACE, "Reload", call_act, ACT_RELOAD },
	{ MANAGER_INTERFACE, "Settle", call_settle, 0 },
	{ 0 },
};

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
	METHOD("Subscribe", NULL, "", NULL, ""),
	METHOD("Unsubscribe", NULL, "", NULL, ""),
	METHOD("ListJobs", "a{sv}", SD_BUS_PARAM(filter), "a(tsussaytttttttttstttst)",
	       SD_BUS_PARAM(jobs)),
	METHOD("ListJobsPacked", "a{sv}", SD_BUS_PARAM(filter), "atay",
	       SD_BUS_PARAM(numbers) SD_BUS_PARAM(texts)),
	METHOD("Cancel", "at", SD_BUS_PARAM(ids), NULL, ""),
	METHOD("Pause", "at", SD_BUS_PARAM(ids), NULL, ""),
	METHOD("Resume", "at", SD_BUS_PARAM(ids), NULL, ""),
	METHOD("SetPriority", "ats", SD_BUS_PARAM(ids) SD_BUS_PARAM(priority), NULL, ""),
	METHOD("SetDeadline", "att", SD_BUS_PARAM(ids) SD_BUS_PARAM(deadline_usec), NULL, ""),
	METHOD("PauseAll", NULL, "", NULL, ""),
	METHOD("ResumeAll", NULL, "", NULL, ""),
	METHOD("Restore", "ta{sv}", SD_BUS_PARAM(id) SD_BUS_PARAM(options), NULL, ""),
	METHOD("ListSpools", NULL, "", "a(ayssttt)", SD_BUS_PARAM(spools)),
	METHOD("ListDevices", NULL, "", "a(ssbtttddt)", SD_BUS_PARAM(devices)),
	METHOD("ListLatencies", NULL, "", "a(ssbtttt)", SD_BUS_PARAM(latencies)),
	METHOD("ListPolicies", NULL, "", "a(sayassbdtbtttstttastt)", SD_BUS_PARAM(policies)),
	METHOD("Reload", NULL, "", NULL, ""),
	METHOD("Settle", "htt", SD_BUS_PARAM(directory) SD_BUS_PARAM(entries) SD_BUS_PARAM(bytes),
	       NULL, ""),
	SD_BUS_SIGNAL_WITH_NAMES("JobNew", "to", SD_BUS_PARAM(id) SD_BUS_PARAM(job), 0),
	SD_BUS_SIGNAL_WITH_NAMES("JobFinished", "tos",
				 SD_BUS_PARAM(id) SD_BUS_PARAM(job) SD_BUS_PARAM(state), 0),
	SD_BUS_SIGNAL_WITH_NAMES("JobsChanged", "a(tsussaytttttttttstttst)", SD_BUS_PARAM(jobs), 0),
	STATUS_FIELDS(PROPERTY) METRICS_FIELDS(PROPERTY) SD_BUS_PROPERTY(
		"DeviceTotals", "a(stta{st}(tat)(tat)(tat)t(tat))", get_totals, 0, 0),
	SD_BUS_VTABLE_END,
};
