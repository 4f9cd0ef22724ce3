/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The objects of jobs. Each is read when it is asked for: memory if it is unfinished, the store
 * otherwise. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"

/* At once, of problems or names. */
#define PIECES_BYTES_MOST MiB(1)

/* ---- properties --------------------------------------------------------------------------- */

static void see_properties(const struct job_record *r, void *userdata)
{
	struct bus_request *q = userdata;
	const struct field *f = q->property ? field_find(job_fields, q->property) : NULL;

	if (q->seen)
		return;
	q->seen = true;
	if (q->property && !f) {
		(void)request_refuse(q, ERROR_INVALID_ARGUMENT, "A job has no such property.");
		return;
	}
	q->error = request_reply(q);
	if (q->error >= 0)
		q->error = f ? message_append_variant(q->reply, f, r)
			     : message_append_properties(q->reply, job_fields, r);
}

static void on_timers(void *userdata)
{
	struct bus_request *q = userdata;

	if (!q->bus)
		(void)request_refuse(q, ERROR_BUSY, "The daemon is stopping.");
	else
		q->error = views_append_properties(q, q->property);
	request_answer(NULL, q);
}

/* Of a job or of a policy: other objects have what can be had at once. */
static int call_properties(struct bus_request *q)
{
	bool all = strcmp(q->call->member, "GetAll") == 0;
	const char *interface, *expected = all ? "s" : "ss";
	bool policy = strncmp(sd_bus_message_get_path(q->m), POLICY_PREFIX "/",
			      strlen(POLICY_PREFIX) + 1) == 0;
	int r;

	if (strcmp(sd_bus_message_get_signature(q->m, true), expected) != 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "%s takes (%s).", q->call->member,
				      expected);
	r = sd_bus_message_read(q->m, expected, &interface, &q->property);
	if (r < 0)
		return r;
	if (interface[0] != '\0' &&
	    strcmp(interface, policy ? POLICY_INTERFACE : JOB_INTERFACE) != 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "A %s has no properties of the interface %.100s.",
				      policy ? "policy" : "job", interface);
	if (policy) {
		policy_timers_update(q->bus, on_timers, q);
		return 0;
	}
	q->job = job_path_parse(sd_bus_message_get_path(q->m));
	request_read_job(q, see_properties);
	return 0;
}

/* ---- Restore ------------------------------------------------------------------------------ */

struct restore {
	int fd;
	char *name;
};

static int set_directory(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct restore *to = target;
	int r = sd_bus_message_read(m, "h", &to->fd);

	return r < 0 ? r : arguments_directory(q, to->fd, "directory", 0);
}

static int set_name(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct restore *to = target;
	const char *wrong;
	int r = arguments_bytes(q, m, "name", &to->name);

	if (r < 0)
		return r;
	wrong = arguments_name_wrong(to->name, strlen(to->name));
	return wrong ? request_refuse(q, ERROR_INVALID_ARGUMENT, "The name %s.", wrong) : 0;
}

static const struct option restore_options[] = {
	{ "directory", "h", 0, set_directory },
	{ "name", "ay", 0, set_name },
};

static int call_restore(struct bus_request *q)
{
	struct restore to = { .fd = -1 };
	int r = 0;

	if (strcmp(q->call->interface, JOB_INTERFACE) == 0)
		q->job = job_path_parse(sd_bus_message_get_path(q->m));
	else
		r = sd_bus_message_read(q->m, "t", &q->job);
	if (r >= 0)
		r = arguments_options(q, restore_options, ELEMENTSOF(restore_options), &to);
	if (r >= 0 && to.name && to.fd < 0)
		r = request_refuse(q, ERROR_INVALID_ARGUMENT,
				   "A name is given, but no directory that it is to be in.");
	q->ids = &q->job;
	q->n_ids = 1;
	if (r >= 0)
		operation_restore(q->bus->operations, &q->caller, q->job, to.fd, to.name,
				  request_decide, q);
	free(to.name);
	return r < 0 ? r : 0;
}

/* ---- problems and names ------------------------------------------------------------------- */

static void list_piece(const struct field *fields, const void *piece, void *userdata)
{
	request_append(userdata, fields, piece, PIECES_BYTES_MOST);
}

static int call_pieces(struct bus_request *q)
{
	static const struct field *const fields[] = { [PIECES_ENTRIES] = entry_fields,
						      [PIECES_PROBLEMS] = problem_fields,
						      [PIECES_KEPT] = kept_fields };
	enum pieces_of of = strcmp(q->call->member, "GetProblems") == 0 ? PIECES_PROBLEMS
			    : strcmp(q->call->member, "GetKept") == 0   ? PIECES_KEPT
									: PIECES_ENTRIES;
	uint64_t offset;
	uint32_t limit;
	int r = sd_bus_message_read(q->m, "tu", &offset, &limit);

	if (r >= 0)
		r = request_list(q, fields[of]);
	if (r < 0)
		return r;
	operation_pieces(q->bus->operations, &q->client->c,
			 job_path_parse(sd_bus_message_get_path(q->m)), of, offset, limit,
			 list_piece, request_listed, q);
	return 0;
}

const struct call job_calls[] = {
	{ JOB_INTERFACE, "Restore", call_restore, 0 },
	{ MANAGER_INTERFACE, "Restore", call_restore, 0 },
	{ JOB_INTERFACE, "GetProblems", call_pieces, 0 },
	{ JOB_INTERFACE, "GetEntries", call_pieces, 0 },
	{ JOB_INTERFACE, "GetKept", call_pieces, 0 },
	{ "org.freedesktop.DBus.Properties", "Get", call_properties, 0 },
	{ "org.freedesktop.DBus.Properties", "GetAll", call_properties, 0 },
	{ 0 },
};

/* Never asked by the library: calls for properties of jobs are ours. */
static int get_property(sd_bus *conn, const char *path, const char *interface, const char *property,
			sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	(void)conn;
	(void)path;
	(void)interface;
	(void)property;
	(void)reply;
	(void)userdata;
	(void)error;
	return -EOPNOTSUPP;
}

const sd_bus_vtable job_vtable[] = {
	SD_BUS_VTABLE_START(0),
	METHOD("Cancel", NULL, "", NULL, ""),
	METHOD("Pause", NULL, "", NULL, ""),
	METHOD("Resume", NULL, "", NULL, ""),
	METHOD("SetPriority", "s", SD_BUS_PARAM(priority), NULL, ""),
	METHOD("SetDeadline", "t", SD_BUS_PARAM(deadline_usec), NULL, ""),
	METHOD("Restore", "a{sv}", SD_BUS_PARAM(options), NULL, ""),
	METHOD("GetProblems", "tu", SD_BUS_PARAM(offset) SD_BUS_PARAM(limit), "a(aysib)",
	       SD_BUS_PARAM(problems)),
	METHOD("GetEntries", "tu", SD_BUS_PARAM(offset) SD_BUS_PARAM(limit), "a(ays)",
	       SD_BUS_PARAM(entries)),
	METHOD("GetKept", "tu", SD_BUS_PARAM(after) SD_BUS_PARAM(limit), "a(tayttt)",
	       SD_BUS_PARAM(names)),
	SD_BUS_SIGNAL_WITH_NAMES("Completed", "s", SD_BUS_PARAM(state), 0),
	JOB_FIELDS(PROPERTY) SD_BUS_VTABLE_END,
};
