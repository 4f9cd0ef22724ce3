/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl list: the jobs as a table.
 *
 * With --json, an array with one object for each job; see job-print.h for its keys. */
#include <stdio.h>

#include "job-list.h"
#include "job-print.h"
#include "ctl/output/messages.h"
#include "base/units.h"
#include "ctl/common/verbs.h"

static int table_show(const struct options *o, const struct job_list *l)
{
	struct screen screen;
	char count[28];
	int r;

	if (l->n == 0) {
		(void)puts(o->all ? "No jobs"
				  : "No jobs that have not finished; --all shows the others");
		return EXIT_DONE;
	}
	screen_open(&screen, options_page(o));
	r = jobs_table_print(l->v, l->n, &screen);
	(void)printf("\n%s %s%s\n", count_format(count, sizeof(count), l->n),
		     l->n == 1 ? "job" : "jobs",
		     o->all ? "" : " not finished; --all shows the others too");
	screen_close(&screen);
	return r < 0 ? client_broken(r) : EXIT_DONE;
}

int verb_list(const struct options *o, struct client *c)
{
	_cleanup_job_list_ struct job_list l = { 0 };
	const struct job_wish wish = { .finished = o->all };
	int r = job_list_get(c, &wish, &l);

	if (r == 0 && o->json != JSON_OFF)
		jobs_json_print(stdout, l.v, l.n, o->json == JSON_PRETTY);
	else if (r == 0 && !o->quiet)
		r = table_show(o, &l);
	return r;
}
