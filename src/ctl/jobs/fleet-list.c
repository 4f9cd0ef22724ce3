/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the database has of each job, and of those of this host what its daemon has, as far as the
 * caller may see them.
 *
 * With --json, an array with one object for each job: host, filesystem, units_open, units_claimed,
 * present (false: its host is gone), and of a job of this host those of job-print.h; of others of
 * these only id, uid, entries_done, bytes_freed and errors (by units alone). */
#include "fleet-list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"
#include "base/units.h"
#include "ctl/common/answer.h"
#include "ctl/fleet/fleet-call.h"
#include "ctl/output/messages.h"
#include "job-list.h"
#include "job-print.h"

/* What the database has of a job. */
struct shared_row {
	const json_t *job;
	bool own; /* the daemon has more of it */
};

struct shared_jobs {
	json_t *said; /* by the database */
	const json_t *jobs;
	char *own;            /* what this host is called; "": it is in no fleet */
	struct job_list list; /* those of this host that the caller may see */
	struct job_line *v;   /* all of them */
	struct shared_row *rows;
	size_t n;
	char **paths; /* of other hosts' jobs */
	size_t n_paths;
};

static void shared_jobs_done(struct shared_jobs *s)
{
	json_decref(s->said);
	free(s->own);
	job_list_done(&s->list);
	free(s->v);
	free(s->rows);
	for (size_t i = 0; i < s->n_paths; i++)
		free(s->paths[i]);
	free(s->paths);
}

static bool is_own(const struct shared_jobs *s, const json_t *job)
{
	return s->own[0] && strcmp(json_text(job, "owner"), s->own) == 0;
}

static int own_name_get(struct client *c, char **ret)
{
	static const struct printed_property table[] = { { "FleetHost", "host" } };
	json_auto_t *v = NULL;
	int r = properties_get(c, MANAGER_PATH, MANAGER_INTERFACE, table, ELEMENTSOF(table), &v);

	if (r)
		return r;
	*ret = strdup(json_text(v, "host"));
	return *ret ? 0 : client_broken(-ENOMEM);
}

static const struct job_line *own_find(const struct shared_jobs *s, uint64_t id)
{
	for (size_t i = 0; i < s->list.n; i++)
		if (s->list.v[i].id == id)
			return &s->list.v[i];
	return NULL;
}

/* The database does not know what its names are. */
static int other_fill(struct shared_jobs *s, const json_t *job, struct job_line *ret)
{
	bool present = json_is_true(json_object_get(job, "present"));
	char *path;

	if (asprintf(&path, "(on %s)", json_text(job, "filesystem")) < 0)
		path = NULL;
	if (strings_add(&s->paths, &s->n_paths, path) < 0)
		return -ENOMEM;
	*ret = (struct job_line){
		.id = json_number(job, "job"),
		.uid = json_number(job, "uid"),
		.entries_done = json_number(job, "entries"),
		.bytes_freed = json_number(job, "bytes"),
		.errors = json_number(job, "errors"),
		.names = 1,
		.state = present ? "running" : "gone",
		.origin = "submit",
		.priority = "normal",
		.path = path,
		.kind = "delete",
		.message = "",
	};
	return 0;
}

static int lines_fill(struct shared_jobs *s, const struct options *o)
{
	size_t size = json_array_size(s->jobs) + 1, i;
	const json_t *job;

	s->v = calloc(size, sizeof(*s->v));
	s->rows = calloc(size, sizeof(*s->rows));
	if (!s->v || !s->rows)
		return -ENOMEM;
	json_array_foreach(s->jobs, i, job) {
		uint64_t id = json_number(job, "job");
		const struct job_line *own = is_own(s, job) ? own_find(s, id) : NULL;

		if (o->one_user && json_number(job, "uid") != o->uid)
			continue;
		if (own)
			s->v[s->n] = *own;
		else if (other_fill(s, job, &s->v[s->n]) < 0)
			return -ENOMEM;
		s->v[s->n].host = json_text(job, "owner");
		s->rows[s->n++] = (struct shared_row){ job, own != NULL };
	}
	return 0;
}

static json_t *row_json(const struct shared_jobs *s, size_t i)
{
	const struct job_line *j = &s->v[i];
	const json_t *job = s->rows[i].job;
	json_t *row = s->rows[i].own ? job_line_json(j)
				     : json_pack("{sIsIsIsIsI}", "id", (json_int_t)j->id, "uid",
						 (json_int_t)j->uid, "entries_done",
						 (json_int_t)j->entries_done, "bytes_freed",
						 (json_int_t)j->bytes_freed, "errors",
						 (json_int_t)j->errors);

	(void)json_object_set_new(row, "host", json_string(j->host));
	(void)json_object_set(row, "filesystem", json_object_get(job, "filesystem"));
	(void)json_object_set(row, "units_open", json_object_get(job, "open"));
	(void)json_object_set(row, "units_claimed", json_object_get(job, "claimed"));
	(void)json_object_set(row, "present", json_object_get(job, "present"));
	return row;
}

static int lines_show(const struct shared_jobs *s, const struct options *o, size_t from)
{
	size_t shown = s->n - from;
	char count[28], all[28];
	struct screen screen;
	int r;

	if (s->n == 0) {
		if (!o->no_legend)
			(void)puts("No jobs that are shared now");
		return 0;
	}
	screen_open(&screen, options_page(o));
	r = jobs_table_print(s->v + from, shown, &screen, !o->no_legend);
	if (!o->no_legend)
		(void)printf("\n%s%s%s %s shared now\n", count_format(count, sizeof(count), shown),
			     shown < s->n ? " of " : "",
			     shown < s->n ? count_format(all, sizeof(all), s->n) : "",
			     s->n == 1 ? "job" : "jobs");
	screen_close(&screen);
	return r;
}

/* Returns 0 or an exit status. */
static int shared_jobs_get(struct shared_jobs *s, const struct options *o, struct client *c)
{
	const struct job_wish unfinished = { 0 };
	int r = own_name_get(c, &s->own);

	if (r == 0)
		r = fleet_ask(o, "units", &s->said);
	if (r == 0)
		r = job_list_get(c, &unfinished, &s->list);
	if (r)
		return r;
	s->jobs = json_object_get(s->said, "jobs");
	r = lines_fill(s, o);
	return r < 0 ? client_broken(r) : 0;
}

int fleet_list(const struct options *o, struct client *c)
{
	struct shared_jobs s = { 0 };
	int r = shared_jobs_get(&s, o, c);
	size_t from = o->lines > 0 && s.n > o->lines ? s.n - o->lines : 0;

	if (r == 0 && o->json != JSON_OFF) {
		json_t *rows = json_array();

		for (size_t i = from; i < s.n; i++)
			(void)json_array_append_new(rows, row_json(&s, i));
		json_print(rows, o->json);
	} else if (r == 0 && !o->quiet) {
		r = lines_show(&s, o, from);
		r = r < 0 ? client_broken(r) : EXIT_DONE;
	}
	shared_jobs_done(&s);
	return r;
}
