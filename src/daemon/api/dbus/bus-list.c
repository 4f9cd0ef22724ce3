/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lists of jobs: ListJobs, ListJobsPacked, GetJob, what the ObjectManager manages, and what is seen
 * beneath the path of all jobs. Answers are bounded: a client that wants more goes on where the
 * last one ended. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bus-state.h"
#include "base/array.h"

#define LIST_JOBS_MOST 10000
/* Ten thousand, with paths of some 500 bytes. */
#define LIST_BYTES_MOST MiB(8)
#define MANAGED_JOBS_MOST 1000

/* ---- ListJobs ----------------------------------------------------------------------------- */

static int set_states(struct bus_request *q, sd_bus_message *m, void *target)
{
	uint32_t *states = target;
	const char *name;
	int r = sd_bus_message_enter_container(m, 'a', "s");

	while (r >= 0 && (r = sd_bus_message_read(m, "s", &name)) > 0) {
		enum job_state s = 0;

		while (s < JOB_STATES && strcmp(name, job_state_name(s)) != 0)
			s++;
		if (s == JOB_STATES)
			return request_refuse(q, ERROR_INVALID_ARGUMENT,
					      "There is no state \"%.40s\".", name);
		*states |= 1U << s;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* 4294967295 is a number like any other, which no job has. */
static int set_uid(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct job_query *query = target;

	(void)q;
	query->one_uid = true;
	return sd_bus_message_read(m, "u", &query->uid);
}

static int set_ids(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct job_query *query = target;

	return arguments_ids(q, m, &query->ids, &query->n_ids);
}

#define OPTION(member) offsetof(struct job_query, member)

static const struct option filters[] = {
	{ "states", "as", OPTION(states), set_states }, { "uid", "u", 0, set_uid },
	{ "finished", "b", OPTION(finished), NULL },    { "since-id", "t", OPTION(since_id), NULL },
	{ "limit", "u", OPTION(limit), NULL },          { "ids", "at", 0, set_ids },
};

static int query_read(struct bus_request *q, struct job_query *query)
{
	int r = arguments_options(q, filters, ELEMENTSOF(filters), query);

	query->finished = query->finished || query->states >> JOB_DONE != 0;
	if (query->limit == 0 || query->limit > LIST_JOBS_MOST)
		query->limit = LIST_JOBS_MOST;
	return r;
}

static void list_job(const struct job_record *r, void *userdata)
{
	request_append(userdata, job_line_fields, r, LIST_BYTES_MOST);
}

static int call_list_jobs(struct bus_request *q)
{
	struct job_query query = { 0 };
	int r = query_read(q, &query);

	if (r >= 0)
		r = request_list(q, job_line_fields);
	if (r < 0)
		return r;
	operation_list(q->bus->operations, &q->client->c, &query, list_job, request_listed, q);
	return 0;
}

/* ---- ListJobsPacked ----------------------------------------------------------------------- */

/* All numbers are in one array, all texts in another, as conf/org.reclaimd1.xml says. A message
 * grows by one field at a time, each of which takes as long as copying a hundred; with ten thousand
 * jobs that is most of the wait. */
static int pack(struct packed *p, const void *v, size_t n)
{
	if (array_reserve(&p->v, &p->size, p->n + n, 1) < 0)
		return -ENOMEM;
	memcpy(p->v + p->n, v, n);
	p->n += n;
	return 0;
}

static void pack_job(const struct job_record *r, void *userdata)
{
	struct bus_request *q = userdata;

	if (!request_fits(q, fields_bytes(job_line_fields, r), LIST_BYTES_MOST))
		return;
	for (const struct field *f = job_line_fields; f->name && q->error >= 0; f++) {
		uint64_t n = field_is_number(f) ? field_number(f, r) : 0;
		const char *text = field_is_text(f) ? field_text(f, r, NULL) : NULL;

		q->error = text ? pack(&q->texts, text, strlen(text) + 1)
				: pack(&q->numbers, &n, sizeof(n));
	}
}

static void on_packed(const struct failure *f, void *userdata)
{
	struct bus_request *q = userdata;

	if (q->error >= 0)
		q->error = request_reply(q);
	if (q->error >= 0)
		q->error = sd_bus_message_append_array(q->reply, 't', q->numbers.v, q->numbers.n);
	if (q->error >= 0)
		q->error = sd_bus_message_append_array(q->reply, 'y', q->texts.v, q->texts.n);
	request_answer(f, q);
}

static int call_list_jobs_packed(struct bus_request *q)
{
	struct job_query query = { .brief = true };
	int r = query_read(q, &query);

	if (r < 0)
		return r;
	operation_list(q->bus->operations, &q->client->c, &query, pack_job, on_packed, q);
	return 0;
}

/* ---- GetJob ------------------------------------------------------------------------------- */

static void see_job(const struct job_record *r, void *userdata)
{
	struct bus_request *q = userdata;
	char path[JOB_PATH_MAX];

	if (q->seen)
		return;
	q->seen = true;
	job_path(path, r->id);
	q->error = request_reply(q);
	if (q->error >= 0)
		q->error = sd_bus_message_append(q->reply, "o", path);
}

static int call_get_job(struct bus_request *q)
{
	int r = sd_bus_message_read(q->m, "t", &q->job);

	if (r < 0)
		return r;
	request_read_job(q, see_job);
	return 0;
}

/* ---- GetManagedObjects -------------------------------------------------------------------- */

static void manage_job(const struct job_record *r, void *userdata)
{
	struct bus_request *q = userdata;
	char path[JOB_PATH_MAX];

	if (!request_fits(q, KiB(1) + fields_bytes(job_line_fields, r), LIST_BYTES_MOST))
		return;
	job_path(path, r->id);
	q->error = message_append_managed(q->reply, path, JOB_INTERFACE, job_fields, r);
}

static void manage(void *userdata)
{
	struct bus_request *q = userdata;
	struct job_query query = { .limit = MANAGED_JOBS_MOST };
	int r = q->bus ? request_reply(q) : -ESHUTDOWN;

	if (r >= 0)
		r = sd_bus_message_open_container(q->reply, 'a', "{oa{sa{sv}}}");
	if (r >= 0)
		r = views_append_managed(q->bus, q->reply);
	if (r >= 0) {
		operation_list(q->bus->operations, &q->client->c, &query, manage_job,
			       request_listed, q);
		return;
	}
	q->error = r;
	request_answer(NULL, q);
}

static int call_managed(struct bus_request *q)
{
	policy_timers_update(q->bus, manage, q);
	return 0;
}

/* ---- Introspect, of the path of all jobs ------------------------------------------------------
 */

/* The library asks for the children of a path without saying which client wants to know them, and a
 * client sees its own user's jobs. */
static void introspect_job(const struct job_record *r, void *userdata)
{
	struct bus_request *q = userdata;
	char node[48];
	int n = snprintf(node, sizeof(node), " <node name=\"%" PRIu64 "\"/>\n", r->id);

	if (q->error >= 0)
		q->error = pack(&q->texts, node, (size_t)n);
}

static void on_introspected(const struct failure *f, void *userdata)
{
	static const char end[] = "</node>\n";
	struct bus_request *q = userdata;

	if (q->error >= 0)
		q->error = pack(&q->texts, end, sizeof(end));
	if (q->error >= 0)
		q->error = request_reply(q);
	if (q->error >= 0)
		q->error = sd_bus_message_append(q->reply, "s", q->texts.v);
	q->answer.bytes += q->texts.n;
	request_answer(f, q);
}

static int call_introspect(struct bus_request *q)
{
	static const char begin[] =
		"<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"\n"
		"\"https://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n<node>\n";
	struct job_query query = { .limit = MANAGED_JOBS_MOST };
	int r = pack(&q->texts, begin, strlen(begin));

	if (r < 0)
		return r;
	operation_list(q->bus->operations, &q->client->c, &query, introspect_job, on_introspected,
		       q);
	return 0;
}

const struct call list_calls[] = {
	{ MANAGER_INTERFACE, "ListJobs", call_list_jobs, 0 },
	{ MANAGER_INTERFACE, "ListJobsPacked", call_list_jobs_packed, 0 },
	{ MANAGER_INTERFACE, "GetJob", call_get_job, 0 },
	{ OBJECT_MANAGER, "GetManagedObjects", call_managed, 0 },
	{ INTROSPECTABLE, "Introspect", call_introspect, 0 },
	{ 0 },
};
