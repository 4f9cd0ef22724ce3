/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The objects of jobs. Each is read when it is asked for: memory if it is unfinished, the store
 * otherwise. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-id128.h>

#include "bus-state.h"

/* At once, of problems or names. */
#define PIECES_MOST 1000
#define PIECES_BYTES_MOST MiB(1)

/* ---- properties: of a record, or of the field of one that the vtable points to ------------- */

/* The shape of a getter; most need nothing but where to write and what. */
#define GETTER(name)                                                                               \
	static int name(sd_bus *conn, const char *path, const char *interface,                     \
			const char *property, sd_bus_message *reply, void *userdata,               \
			sd_bus_error *error)                                                       \
	{                                                                                          \
		(void)conn;                                                                        \
		(void)path;                                                                        \
		(void)interface;                                                                   \
		(void)property;                                                                    \
		(void)error;                                                                       \
		return append_##name(reply, userdata);                                             \
	}

static int append_number(sd_bus_message *m, const uint64_t *n)
{
	return sd_bus_message_append_basic(m, 't', n);
}
GETTER(number)

static int append_text(sd_bus_message *m, const char *const *s)
{
	return message_append_text(m, *s);
}
GETTER(text)

static int append_path(sd_bus_message *m, const char *const *s)
{
	return message_append_bytes(m, *s);
}
GETTER(path)

static int append_uuid(sd_bus_message *m, const uint8_t *uuid)
{
	char text[SD_ID128_STRING_MAX];
	sd_id128_t id;

	memcpy(id.bytes, uuid, sizeof(id.bytes));
	return sd_bus_message_append(m, "s", sd_id128_to_string(id, text));
}
GETTER(uuid)

static int append_state(sd_bus_message *m, const enum job_state *s)
{
	return sd_bus_message_append(m, "s", job_state_name(*s));
}
GETTER(state)

static int append_priority(sd_bus_message *m, const enum job_priority *p)
{
	return sd_bus_message_append(m, "s", job_priority_name(*p));
}
GETTER(priority)

static int append_uid(sd_bus_message *m, const uid_t *uid)
{
	return sd_bus_message_append(m, "u", *uid);
}
GETTER(uid)

char *job_staging(const struct job_record *r)
{
	char *path;

	if (!r->staging || r->staging[0] == '\0')
		return strdup("");
	if (asprintf(&path, "%s/.reclaim/%u/%s", strcmp(r->mount, "/") == 0 ? "" : r->mount,
		     (unsigned)r->uid, r->staging) < 0)
		return NULL;
	return path;
}

static int append_staging(sd_bus_message *m, const struct job_record *r)
{
	char *path = job_staging(r);
	int error = path ? message_append_bytes(m, path) : -ENOMEM;

	free(path);
	return error;
}
GETTER(staging)

static void on_read(const struct failure *f, void *userdata)
{
	struct bus_request *q = userdata;

	if ((!f || !f->cause) && !q->seen) {
		(void)request_no_job(q);
		f = &q->failure;
	} else if ((!f || !f->cause) && q->error == -ENOENT) {
		(void)request_refuse(q, ERROR_INVALID_ARGUMENT, "A job has no such property.");
		f = &q->failure;
	}
	request_answer(f, q);
}

static void read_all(const struct job_record *r, void *userdata)
{
	struct bus_request *q = userdata;

	if (q->seen)
		return;
	q->seen = true;
	q->error = request_reply(q);
	if (q->error >= 0)
		q->error = vtable_append_all(q->reply, job_vtable, JOB_INTERFACE, (void *)r);
}

static void read_one(const struct job_record *r, void *userdata)
{
	struct bus_request *q = userdata;
	const char *interface, *name;

	if (q->seen)
		return;
	q->seen = true;
	q->error = sd_bus_message_rewind(q->m, true);
	if (q->error >= 0)
		q->error = sd_bus_message_read(q->m, "ss", &interface, &name);
	if (q->error >= 0)
		q->error = request_reply(q);
	if (q->error >= 0)
		q->error = vtable_append_property(q->reply, job_vtable, JOB_INTERFACE, name,
						  (void *)r);
}

static int call_properties(struct bus_request *q)
{
	struct job_query query = { .finished = true, .ids = &q->job, .n_ids = 1, .limit = 1 };
	bool all = strcmp(q->call->member, "GetAll") == 0;
	const char *interface, *expected = all ? "s" : "ss";
	int r;

	if (strcmp(sd_bus_message_get_signature(q->m, true), expected) != 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "%s takes (%s).", q->call->member,
				      expected);
	r = sd_bus_message_read(q->m, "s", &interface);
	if (r < 0)
		return r;
	if (interface[0] != '\0' && strcmp(interface, JOB_INTERFACE) != 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "A job has no properties of the interface %.100s.",
				      interface);
	q->job = job_path_parse(sd_bus_message_get_path(q->m));
	operation_list(q->bus->operations, &q->client->c, &query, all ? read_all : read_one,
		       on_read, q);
	return 0;
}

/* ---- methods ------------------------------------------------------------------------------ */

static int act(struct bus_request *q, job_operation_t operation)
{
	q->job = job_path_parse(sd_bus_message_get_path(q->m));
	return request_act(q, operation, &q->job, 1);
}

static int call_cancel(struct bus_request *q)
{
	return act(q, operation_cancel);
}

static int call_pause(struct bus_request *q)
{
	return act(q, operation_pause);
}

static int call_resume(struct bus_request *q)
{
	return act(q, operation_resume);
}

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
	{ "directory", "h", set_directory },
	{ "name", "ay", set_name },
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

static void list_problem(const struct problem_record *p, void *userdata)
{
	struct bus_request *q = userdata;

	if (!request_fits(q, strlen(p->path) + strlen(p->what) + 32, PIECES_BYTES_MOST))
		return;
	q->error = sd_bus_message_open_container(q->reply, 'r', "aysib");
	if (q->error >= 0)
		q->error = message_append_bytes(q->reply, p->path);
	if (q->error >= 0)
		q->error = message_append_text(q->reply, p->what);
	if (q->error >= 0)
		q->error = sd_bus_message_append(q->reply, "ib", -p->error, p->is_error);
	if (q->error >= 0)
		q->error = sd_bus_message_close_container(q->reply);
}

static void list_entry(const char *path, enum entry_state state, void *userdata)
{
	struct bus_request *q = userdata;

	if (!request_fits(q, strlen(path) + 32, PIECES_BYTES_MOST))
		return;
	q->error = sd_bus_message_open_container(q->reply, 'r', "ays");
	if (q->error >= 0)
		q->error = message_append_bytes(q->reply, path);
	if (q->error >= 0)
		q->error = sd_bus_message_append(q->reply, "s", entry_state_name(state));
	if (q->error >= 0)
		q->error = sd_bus_message_close_container(q->reply);
}

static void on_pieces(const struct failure *f, void *userdata)
{
	struct bus_request *q = userdata;

	if (q->error >= 0)
		q->error = sd_bus_message_close_container(q->reply);
	request_answer(f, q);
}

static int call_pieces(struct bus_request *q)
{
	bool problems = strcmp(q->call->member, "GetProblems") == 0;
	uint64_t offset;
	uint32_t limit;
	int r = sd_bus_message_read(q->m, "tu", &offset, &limit);

	if (r >= 0)
		r = request_reply(q);
	if (r >= 0)
		r = sd_bus_message_open_container(q->reply, 'a', problems ? "(aysib)" : "(ays)");
	if (r < 0)
		return r;
	if (limit == 0 || limit > PIECES_MOST)
		limit = PIECES_MOST;
	q->job = job_path_parse(sd_bus_message_get_path(q->m));
	if (problems)
		operation_problems(q->bus->operations, &q->client->c, q->job, offset, limit,
				   list_problem, on_pieces, q);
	else
		operation_entries(q->bus->operations, &q->client->c, q->job, offset, limit,
				  list_entry, on_pieces, q);
	return 0;
}

const struct call job_calls[] = {
	{ JOB_INTERFACE, "Cancel", call_cancel },
	{ JOB_INTERFACE, "Pause", call_pause },
	{ JOB_INTERFACE, "Resume", call_resume },
	{ JOB_INTERFACE, "Restore", call_restore },
	{ MANAGER_INTERFACE, "Restore", call_restore },
	{ JOB_INTERFACE, "GetProblems", call_pieces },
	{ JOB_INTERFACE, "GetEntries", call_pieces },
	{ "org.freedesktop.DBus.Properties", "Get", call_properties },
	{ "org.freedesktop.DBus.Properties", "GetAll", call_properties },
	{ 0 },
};

#define METHOD(member, in, in_names, out, out_names)                                               \
	SD_BUS_METHOD_WITH_NAMES(member, in, in_names, out, out_names, request_begin,              \
				 SD_BUS_VTABLE_UNPRIVILEGED)
#define FIELD(name, type, get, field, flags)                                                       \
	SD_BUS_PROPERTY(name, type, get, offsetof(struct job_record, field), flags)
#define CONST SD_BUS_VTABLE_PROPERTY_CONST
#define CHANGES SD_BUS_VTABLE_PROPERTY_EMITS_INVALIDATION

const sd_bus_vtable job_vtable[] = {
	SD_BUS_VTABLE_START(0),
	METHOD("Cancel", NULL, "", NULL, ""),
	METHOD("Pause", NULL, "", NULL, ""),
	METHOD("Resume", NULL, "", NULL, ""),
	METHOD("Restore", "a{sv}", SD_BUS_PARAM(options), NULL, ""),
	METHOD("GetProblems", "tu", SD_BUS_PARAM(offset) SD_BUS_PARAM(limit), "a(aysib)",
	       SD_BUS_PARAM(problems)),
	METHOD("GetEntries", "tu", SD_BUS_PARAM(offset) SD_BUS_PARAM(limit), "a(ays)",
	       SD_BUS_PARAM(entries)),
	FIELD("Id", "t", number, id, CONST),
	FIELD("Uuid", "s", uuid, uuid, CONST),
	FIELD("State", "s", state, state, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
	FIELD("Uid", "u", uid, uid, CONST),
	FIELD("Origin", "s", text, origin, CONST),
	FIELD("Priority", "s", priority, priority, CONST),
	FIELD("Path", "ay", path, path, CONST),
	SD_BUS_PROPERTY("Staging", "ay", staging, 0, CHANGES),
	FIELD("Inplace", "s", text, inplace, CHANGES),
	FIELD("Mount", "ay", path, mount, CONST),
	FIELD("Names", "t", number, names, CHANGES),
	FIELD("Entries", "t", number, entries, CHANGES),
	FIELD("EntriesDone", "t", number, entries_done, CHANGES),
	FIELD("Bytes", "t", number, bytes, CHANGES),
	FIELD("BytesFreed", "t", number, bytes_freed, CHANGES),
	FIELD("Errors", "t", number, errors, CHANGES),
	FIELD("Skipped", "t", number, skipped, CHANGES),
	FIELD("Created", "t", number, created_usec, CONST),
	FIELD("HeldUntil", "t", number, held_until_usec, CHANGES),
	FIELD("By", "t", number, by_usec, CONST),
	FIELD("Started", "t", number, started_usec, CHANGES),
	FIELD("Finished", "t", number, finished_usec, CHANGES),
	FIELD("Message", "s", text, message, CHANGES),
	FIELD("Strategy", "s", text, strategy, CHANGES),
	SD_BUS_VTABLE_END,
};
