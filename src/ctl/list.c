/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl list: the jobs as a table.
 *
 * With --json, an array with one object for each job; see job-print.h for its keys. */
#include <stdio.h>

#include "job-list.h"
#include "job-print.h"
#include "job-table.h"
#include "output.h"
#include "util/units.h"
#include "verbs.h"

static int table_show(const struct options *o, const struct job_list *l)
{
	struct screen screen;
	char n[28];
	int r;

	if (l->n == 0) {
		(void)puts(o->all ? "No jobs"
				  : "No jobs that have not finished; --all shows the others");
		return EXIT_DONE;
	}
	screen_open(&screen, o);
	r = job_table_print(l, &screen);
	if (r >= 0)
		(void)printf("\n%s %s%s\n", count_format(n, sizeof(n), l->n),
			     l->n == 1 ? "job" : "jobs",
			     o->all ? "" : " not finished; --all shows the others too");
	screen_close(&screen);
	return r < 0 ? client_broken(r) : EXIT_DONE;
}

static void json_show(const struct options *o, const struct job_list *l)
{
	json_t *array;

	if (o->json == JSON_SHORT) {
		for (size_t i = 0; i < l->n; i++) {
			(void)fputc(i == 0 ? '[' : ',', stdout);
			job_line_json_print(&l->v[i]);
		}
		(void)fputs(l->n > 0 ? "]\n" : "[]\n", stdout);
		return;
	}
	array = json_array();
	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(array, job_line_json(&l->v[i]));
	json_print(array, o->json);
}

int verb_list(int argc, char **argv)
{
	_cleanup_job_list_ struct job_list l = { 0 };
	_cleanup_client_ struct client *c = NULL;
	struct job_wish wish = { 0 };
	struct options o;
	int r = options_parse(&o, VERB_LIST, argc, argv);

	if (r == 0)
		r = client_open(&c, &o, /* many_fds= */ false);
	wish.finished = o.all;
	if (r == 0)
		r = job_list_get(c, &wish, &l);
	if (r)
		return r;
	if (o.json == JSON_OFF)
		return o.quiet ? EXIT_DONE : table_show(&o, &l);
	json_init();
	json_show(&o, &l);
	return EXIT_DONE;
}
