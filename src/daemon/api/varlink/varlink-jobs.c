/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Methods on jobs: reading them, a bounded number at once, and acting on them. */
#include <errno.h>
#include <string.h>

#include "base/escape.h"
#include "varlink-state.h"

/* ---- reading ------------------------------------------------------------------------------ */

static void list_job(const struct job_record *r, void *userdata)
{
	struct varlink_call *q = userdata;
	size_t n = q->n_pieces;

	call_append(q, job_fields, r);
	if (q->n_pieces > n)
		q->query.since_id = r->id + 1;
}

static void ask_jobs(struct varlink_call *q)
{
	struct job_query query = q->query;

	query.limit = (uint32_t)MIN(q->most, LIST_MOST);
	operation_list(q->varlink->bus->operations, &q->client->c, &query, list_job,
		       call_answer_part, q);
}

struct filter {
	struct numbers ids;
	uint64_t uid, since_id, limit;
	bool finished;
	uint32_t states;
};

/* Only states that there are come this far. */
static int read_states(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags,
		       void *to)
{
	uint32_t *states = to;

	(void)name;
	(void)flags;
	for (size_t i = 0; i < sd_json_variant_elements(v); i++)
		for (enum job_state s = 0; s < JOB_STATES; s++)
			if (strcmp(sd_json_variant_string(sd_json_variant_by_index(v, i)),
				   job_state_name(s)) == 0)
				*states |= 1U << s;
	return 0;
}

static const sd_json_dispatch_field filter_fields[] = {
	{ "states", SD_JSON_VARIANT_ARRAY, read_states, offsetof(struct filter, states),
	  SD_JSON_NULLABLE },
	{ "uid", SD_JSON_VARIANT_NUMBER, read_number, offsetof(struct filter, uid),
	  SD_JSON_NULLABLE },
	{ "finished", SD_JSON_VARIANT_BOOLEAN, read_bool, offsetof(struct filter, finished),
	  SD_JSON_NULLABLE },
	{ "sinceId", SD_JSON_VARIANT_NUMBER, read_number, offsetof(struct filter, since_id),
	  SD_JSON_NULLABLE },
	{ "limit", SD_JSON_VARIANT_NUMBER, read_number, offsetof(struct filter, limit),
	  SD_JSON_NULLABLE },
	{ "ids", SD_JSON_VARIANT_ARRAY, read_numbers, offsetof(struct filter, ids),
	  SD_JSON_NULLABLE },
	{ 0 },
};

static int list_jobs(struct varlink_call *q)
{
	struct filter f = { .uid = UINT64_MAX };
	int r = call_read(q, filter_fields, &f);

	if (r >= 0 && f.uid != UINT64_MAX && f.uid >= UINT32_MAX)
		r = call_refuse(q, ERROR_INVALID_ARGUMENT, "uid is no number of a user.");
	else if (r >= 0 && f.ids.v && f.ids.n == 0)
		r = call_refuse(q, ERROR_INVALID_ARGUMENT, "No job is named.");
	q->query = (struct job_query){
		.states = f.states,
		.finished = f.finished || f.states >> JOB_DONE != 0,
		.one_uid = f.uid != UINT64_MAX,
		.uid = (uid_t)f.uid,
		.since_id = f.since_id,
		.ids = f.ids.v,
		.n_ids = f.ids.n,
	};
	if (r < 0)
		return r;
	q->list = "jobs";
	q->go_on = ask_jobs;
	q->most = f.limit == 0 ? UINT64_MAX : f.limit;
	ask_jobs(q);
	return 0;
}

static void see_job(const struct job_record *r, void *userdata)
{
	struct varlink_call *q = userdata;
	sd_json_variant *job = NULL;

	if (q->reply || q->error < 0)
		return;
	q->error = build_fields(&job, job_fields, r);
	if (q->error >= 0)
		q->error = sd_json_buildo(&q->reply, SD_JSON_BUILD_PAIR_VARIANT("job", job));
	(void)sd_json_variant_unref(job);
}

static const sd_json_dispatch_field id_fields[] = {
	{ "id", SD_JSON_VARIANT_NUMBER, read_number, offsetof(struct varlink_call, job),
	  SD_JSON_MANDATORY },
	{ 0 },
};

static int get_job(struct varlink_call *q)
{
	struct job_query query = { .finished = true, .ids = &q->job, .n_ids = 1, .limit = 1 };
	int r = call_read(q, id_fields, q);

	if (r >= 0)
		operation_list(q->varlink->bus->operations, &q->client->c, &query, see_job,
			       call_answer, q);
	return r;
}

/* ---- one job's problems and names --------------------------------------------------------- */

struct varlink_page {
	uint64_t id, from, limit;
};

static const sd_json_dispatch_field page_fields[] = {
	{ "id", SD_JSON_VARIANT_NUMBER, read_number, offsetof(struct varlink_page, id),
	  SD_JSON_MANDATORY },
	{ "offset", SD_JSON_VARIANT_NUMBER, read_number, offsetof(struct varlink_page, from),
	  SD_JSON_NULLABLE },
	{ "after", SD_JSON_VARIANT_NUMBER, read_number, offsetof(struct varlink_page, from),
	  SD_JSON_NULLABLE },
	{ "limit", SD_JSON_VARIANT_NUMBER, read_number, offsetof(struct varlink_page, limit),
	  SD_JSON_NULLABLE },
	{ 0 },
};

/* The next part begins behind what has come: names that are kept have gaps between their numbers.
 */
static void list_piece(const struct field *fields, const void *piece, void *userdata)
{
	struct varlink_call *q = userdata;
	size_t n = q->n_pieces;

	call_append(q, fields, piece);
	if (q->n_pieces > n)
		q->from = q->of == PIECES_KEPT ? ((const struct entry_view *)piece)->number
					       : q->from + 1;
}

static void ask_pieces(struct varlink_call *q)
{
	operation_pieces(q->varlink->bus->operations, &q->client->c, q->job, q->of, q->from,
			 MIN(q->most, LIST_MOST), list_piece, call_answer_part, q);
}

static int get_pieces(struct varlink_call *q, enum pieces_of of)
{
	static const char *const lists[] = { [PIECES_ENTRIES] = "entries",
					     [PIECES_PROBLEMS] = "problems",
					     [PIECES_KEPT] = "names" };
	struct varlink_page p = { 0 };
	int r = call_read(q, page_fields, &p);

	if (r < 0)
		return r;
	q->list = lists[of];
	q->of = of;
	q->job = p.id;
	q->from = p.from;
	q->most = p.limit == 0 ? UINT64_MAX : p.limit;
	q->go_on = ask_pieces;
	ask_pieces(q);
	return 0;
}

static int get_problems(struct varlink_call *q)
{
	return get_pieces(q, PIECES_PROBLEMS);
}

static int get_entries(struct varlink_call *q)
{
	return get_pieces(q, PIECES_ENTRIES);
}

static int get_kept(struct varlink_call *q)
{
	return get_pieces(q, PIECES_KEPT);
}

/* ---- acting ------------------------------------------------------------------------------- */

static const sd_json_dispatch_field ids_fields[] = {
	{ "ids", SD_JSON_VARIANT_ARRAY, read_numbers, 0, SD_JSON_MANDATORY },
	{ 0 },
};

static int act(struct varlink_call *q, enum act act)
{
	struct numbers ids = { 0 };
	int r = act <= ACT_RESUME ? call_read(q, ids_fields, &ids) : 0;

	if (r >= 0 && act <= ACT_RESUME && ids.n == 0)
		r = call_refuse(q, ERROR_INVALID_ARGUMENT, "No job is named.");
	if (r >= 0)
		operation_act(q->varlink->bus->operations, &q->client->c, act, ids.v, ids.n,
			      call_answer, q);
	free(ids.v);
	return r;
}

struct varlink_change {
	struct numbers ids;
	struct job_change to;
};

#define CHANGE(member) offsetof(struct varlink_change, member)

static const sd_json_dispatch_field change_fields[] = {
	{ "ids", SD_JSON_VARIANT_ARRAY, read_numbers, CHANGE(ids), SD_JSON_MANDATORY },
	{ "priority", SD_JSON_VARIANT_STRING, read_priority, CHANGE(to.priority), 0 },
	{ "deadlineUSec", SD_JSON_VARIANT_NUMBER, read_number, CHANGE(to.deadline_usec), 0 },
	{ 0 },
};

static int change(struct varlink_call *q, bool priority)
{
	struct varlink_change c = { .to = { .has_priority = priority, .has_deadline = !priority } };
	int r = call_read(q, change_fields, &c);

	if (r >= 0 && c.ids.n == 0)
		r = call_refuse(q, ERROR_INVALID_ARGUMENT, "No job is named.");
	if (r >= 0)
		operation_change(q->varlink->bus->operations, &q->client->c, &c.to, c.ids.v,
				 c.ids.n, call_answer, q);
	free(c.ids.v);
	return r;
}

static int set_priority(struct varlink_call *q)
{
	return change(q, true);
}

static int set_deadline(struct varlink_call *q)
{
	return change(q, false);
}

static int restore(struct varlink_call *q)
{
	int r = call_read(q, id_fields, q);

	if (r >= 0)
		operation_restore(q->varlink->bus->operations, &q->client->c, q->job, -1, NULL,
				  call_answer, q);
	return r;
}

/* ---- binding ------------------------------------------------------------------------------ */

#define ACT(name, which)                                                                           \
	static int name(struct varlink_call *q)                                                    \
	{                                                                                          \
		return act(q, which);                                                              \
	}
ACT(cancel, ACT_CANCEL)
ACT(pause_jobs, ACT_PAUSE)
ACT(resume, ACT_RESUME)
ACT(pause_all, ACT_PAUSE_ALL)
ACT(resume_all, ACT_RESUME_ALL)
ACT(reload, ACT_RELOAD)

VARLINK_METHOD(on_list_jobs, list_jobs)
VARLINK_METHOD(on_get_job, get_job)
VARLINK_METHOD(on_get_problems, get_problems)
VARLINK_METHOD(on_get_entries, get_entries)
VARLINK_METHOD(on_get_kept, get_kept)
VARLINK_METHOD(on_cancel, cancel)
VARLINK_METHOD(on_pause, pause_jobs)
VARLINK_METHOD(on_resume, resume)
VARLINK_METHOD(on_set_priority, set_priority)
VARLINK_METHOD(on_set_deadline, set_deadline)
VARLINK_METHOD(on_restore, restore)
VARLINK_METHOD(on_pause_all, pause_all)
VARLINK_METHOD(on_resume_all, resume_all)
VARLINK_METHOD(on_reload, reload)

int call_bind_jobs(sd_varlink_server *s)
{
	return sd_varlink_server_bind_method_many(
		s, VARLINK_INTERFACE ".ListJobs", on_list_jobs, VARLINK_INTERFACE ".GetJob",
		on_get_job, VARLINK_INTERFACE ".GetProblems", on_get_problems,
		VARLINK_INTERFACE ".GetEntries", on_get_entries, VARLINK_INTERFACE ".GetKept",
		on_get_kept, VARLINK_INTERFACE ".Cancel", on_cancel, VARLINK_INTERFACE ".Pause",
		on_pause, VARLINK_INTERFACE ".Resume", on_resume, VARLINK_INTERFACE ".SetPriority",
		on_set_priority, VARLINK_INTERFACE ".SetDeadline", on_set_deadline,
		VARLINK_INTERFACE ".Restore", on_restore, VARLINK_INTERFACE ".PauseAll",
		on_pause_all, VARLINK_INTERFACE ".ResumeAll", on_resume_all,
		VARLINK_INTERFACE ".Reload", on_reload);
}
