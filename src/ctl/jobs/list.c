/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl list: the jobs as a table.
 *
 * With --json, an array with one object for each job; see job-print.h for its keys. */
#include <stdio.h>

#include "job-json.h"
#include "job-list.h"
#include "job-print.h"
#include "job-table.h"
#include "ctl/output/messages.h"
#include "base/units.h"
#include "ctl/common/verbs.h"

static void table_show(const struct options *o, size_t n, struct job_table *t)
{
	struct screen screen;
	char count[28];

	if (n == 0) {
		(void)puts(o->all ? "No jobs"
				  : "No jobs that have not finished; --all shows the others");
		return;
	}
	screen_open(&screen, options_page(o));
	job_table_print(t, &screen);
	(void)printf("\n%s %s%s\n", count_format(count, sizeof(count), n), n == 1 ? "job" : "jobs",
		     o->all ? "" : " not finished; --all shows the others too");
	screen_close(&screen);
}

static int rows_add(const struct job_line *v, size_t n, void *userdata)
{
	int r = job_table_add(userdata, v, n);

	return r < 0 ? client_broken(r) : 0;
}

/* Rows, and JSON, are made while the next jobs are on their way, which takes as long. */
static int table_list(struct client *c, const struct options *o, const struct job_wish *wish,
		      struct job_list *l)
{
	_cleanup_job_table_ struct job_table *t = NULL;
	size_t n;
	int r;

	screen_locale();
	r = job_table_new(&t);
	if (r < 0)
		return client_broken(r);
	r = job_list_each(c, wish, l, &n, rows_add, t);
	if (r == 0 && !o->quiet)
		table_show(o, n, t);
	return r;
}

static int jobs_add(const struct job_line *v, size_t n, void *userdata)
{
	job_json_add(userdata, v, n);
	return 0;
}

static int json_list(struct client *c, const struct options *o, const struct job_wish *wish,
		     struct job_list *l)
{
	struct job_json j;
	size_t n;
	int r;

	json_init();
	job_json_begin(&j, stdout, o->json);
	r = job_list_each(c, wish, l, &n, jobs_add, &j);
	if (r == 0)
		job_json_end(&j);
	return r;
}

int verb_list(int argc, char **argv)
{
	_cleanup_job_list_ struct job_list l = { 0 };
	_cleanup_client_ struct client *c = NULL;
	struct job_wish wish = { 0 };
	struct options o;
	int r = options_parse(&o, VERB_LIST, argc, argv);

	if (r == 0)
		r = client_open(&c, &o, /* socket_first= */ true);
	if (r)
		return r;
	wish.finished = o.all;
	return o.json == JSON_OFF ? table_list(c, &o, &wish, &l) : json_list(c, &o, &wish, &l);
}
