/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lists of jobs: ListJobs, ListJobsPacked, GetJob, and what the ObjectManager manages. Answers are
 * bounded: a client that wants more goes on where the last one ended. */
#include <errno.h>
#include <string.h>

#include "bus-state.h"

#define LIST_JOBS_MOST 10000
#define LIST_BYTES_MOST MiB(4)
#define MANAGED_JOBS_MOST 1000

/* ---- ListJobs ----------------------------------------------------------------------------- */

static int set_states(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct job_query *query = target;
	const char *name;
	int r = sd_bus_message_enter_container(m, 'a', "s");

	while (r >= 0 && (r = sd_bus_message_read(m, "s", &name)) > 0) {
		enum job_state s = 0;

		while (s < JOB_STATES && strcmp(name, job_state_name(s)) != 0)
			s++;
		if (s == JOB_STATES)
			return request_refuse(q, ERROR_INVALID_ARGUMENT,
					      "There is no state \"%.40s\".", name);
		query->states |= 1U << s;
		if (s >= JOB_DONE)
			query->finished = true;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int set_uid(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct job_query *query = target;

	(void)q;
	query->one_uid = true;
	return sd_bus_message_read(m, "u", &query->uid);
}

static int set_finished(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct job_query *query = target;
	int on, r = sd_bus_message_read(m, "b", &on);

	(void)q;
	if (r >= 0 && on)
		query->finished = true;
	return r;
}

static int set_since(struct bus_request *q, sd_bus_message *m, void *target)
{
	(void)q;
	return sd_bus_message_read(m, "t", &((struct job_query *)target)->since_id);
}

static int set_limit(struct bus_request *q, sd_bus_message *m, void *target)
{
	(void)q;
	return sd_bus_message_read(m, "u", &((struct job_query *)target)->limit);
}

static int set_ids(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct job_query *query = target;

	return arguments_ids(q, m, &query->ids, &query->n_ids);
}

static const struct option filters[] = {
	{ "states", "as", set_states },    { "uid", "u", set_uid },
	{ "finished", "b", set_finished }, { "since-id", "t", set_since },
	{ "limit", "u", set_limit },       { "ids", "at", set_ids },
};

static void list_job(const struct job_record *r, void *userdata)
{
	struct bus_request *q = userdata;
	size_t path_len = r->path ? strlen(r->path) : 0;

	if (!request_fits(q, path_len + strlen(r->origin ? r->origin : "") + 160, LIST_BYTES_MOST))
		return;
	q->error = sd_bus_message_open_container(q->reply, 'r', "tsussayttttttttt");
	if (q->error >= 0)
		q->error = sd_bus_message_append(q->reply, "tsu", r->id, job_state_name(r->state),
						 r->uid);
	if (q->error >= 0)
		q->error = message_append_text(q->reply, r->origin);
	if (q->error >= 0)
		q->error = sd_bus_message_append(q->reply, "s", job_priority_name(r->priority));
	if (q->error >= 0)
		q->error = message_append_bytes(q->reply, r->path);
	if (q->error >= 0)
		q->error = sd_bus_message_append(q->reply, "ttttttttt", r->entries, r->entries_done,
						 r->bytes, r->bytes_freed, r->errors,
						 r->created_usec, r->held_until_usec,
						 r->finished_usec, r->started_usec);
	if (q->error >= 0)
		q->error = sd_bus_message_close_container(q->reply);
}

static void on_listed(const struct failure *f, void *userdata)
{
	struct bus_request *q = userdata;

	if (q->error >= 0)
		q->error = sd_bus_message_close_container(q->reply);
	request_answer(f, q);
}

static int query_read(struct bus_request *q, struct job_query *query)
{
	int r = arguments_options(q, filters, ELEMENTSOF(filters), query);

	if (r >= 0 && (query->limit == 0 || query->limit > LIST_JOBS_MOST))
		query->limit = LIST_JOBS_MOST;
	return r;
}

static int call_list_jobs(struct bus_request *q)
{
	struct job_query query = { 0 };
	int r = query_read(q, &query);

	if (r >= 0)
		r = request_reply(q);
	if (r >= 0)
		r = sd_bus_message_open_container(q->reply, 'a', "(tsussayttttttttt)");
	if (r < 0)
		return r;
	operation_list(q->bus->operations, &q->client->c, &query, list_job, on_listed, q);
	return 0;
}

/* ---- ListJobsPacked ----------------------------------------------------------------------- */

static void pack_job(const struct job_record *r, void *userdata)
{
	const struct packed_job j = packed_job(r);
	struct bus_request *q = userdata;

	if (request_fits(q, j.bytes, LIST_BYTES_MOST))
		q->error = packed_add(&q->packed, &j);
}

static void on_packed(const struct failure *f, void *userdata)
{
	struct bus_request *q = userdata;
	const struct packed *p = &q->packed;

	if (q->error >= 0)
		q->error = request_reply(q);
	if (q->error >= 0)
		q->error = sd_bus_message_append_array(q->reply, 't', p->numbers.v, p->numbers.n);
	if (q->error >= 0)
		q->error = sd_bus_message_append_array(q->reply, 'y', p->texts.v, p->texts.n);
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
	(void)r;
	((struct bus_request *)userdata)->seen = true;
}

static void on_got(const struct failure *f, void *userdata)
{
	struct bus_request *q = userdata;
	char path[JOB_PATH_MAX];

	if ((!f || !f->cause) && !q->seen) {
		(void)request_no_job(q);
		f = &q->failure;
	} else if (!f || !f->cause) {
		job_path(path, q->job);
		q->error = request_reply(q);
		if (q->error >= 0)
			q->error = sd_bus_message_append(q->reply, "o", path);
	}
	request_answer(f, q);
}

static int call_get_job(struct bus_request *q)
{
	struct job_query query = { .finished = true, .ids = &q->job, .n_ids = 1, .limit = 1 };
	int r = sd_bus_message_read(q->m, "t", &q->job);

	if (r < 0)
		return r;
	operation_list(q->bus->operations, &q->client->c, &query, see_job, on_got, q);
	return 0;
}

/* ---- GetManagedObjects -------------------------------------------------------------------- */

static void manage_job(const struct job_record *r, void *userdata)
{
	struct bus_request *q = userdata;
	char path[JOB_PATH_MAX];

	if (!request_fits(q, 1024 + strlen(r->path ? r->path : ""), LIST_BYTES_MOST))
		return;
	job_path(path, r->id);
	q->error = vtable_append_managed(q->reply, path, job_vtable, JOB_INTERFACE, (void *)r);
}

static int call_managed(struct bus_request *q)
{
	struct job_query query = { .limit = MANAGED_JOBS_MOST };
	int r = request_reply(q);

	if (r >= 0)
		r = sd_bus_message_open_container(q->reply, 'a', "{oa{sa{sv}}}");
	if (r >= 0)
		r = views_append_managed(q->bus, q->reply);
	if (r < 0)
		return r;
	operation_list(q->bus->operations, &q->client->c, &query, manage_job, on_listed, q);
	return 0;
}

const struct call list_calls[] = {
	{ MANAGER_INTERFACE, "ListJobs", call_list_jobs },
	{ MANAGER_INTERFACE, "ListJobsPacked", call_list_jobs_packed },
	{ MANAGER_INTERFACE, "GetJob", call_get_job },
	{ "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", call_managed },
	{ 0 },
};
