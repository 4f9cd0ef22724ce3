/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl list: the jobs as a table.
 *
 * With --json, an array with one object for each job; see job-print.h for its keys. */
#include <stdio.h>

#include "fleet-list.h"
#include "job-list.h"
#include "job-print.h"
#include "ctl/output/messages.h"
#include "base/units.h"
#include "ctl/common/verbs.h"

static int table_show(const struct options *o, const struct job_line *v, size_t shown, size_t n)
{
	bool others = !o->all && !o->states;
	char count[28], all[28];
	struct screen screen;
	int r;

	if (n == 0) {
		if (!o->no_legend)
			(void)puts(o->states || o->one_user ? "No such jobs"
				   : others ? "No jobs that have not finished; --all shows the "
					      "others"
					    : "No jobs");
		return EXIT_DONE;
	}
	screen_open(&screen, options_page(o));
	r = jobs_table_print(v, shown, &screen, !o->no_legend);
	if (!o->no_legend)
		(void)printf("\n%s%s%s %s%s\n", count_format(count, sizeof(count), shown),
			     shown < n ? " of " : "",
			     shown < n ? count_format(all, sizeof(all), n) : "",
			     n == 1 ? "job" : "jobs",
			     others ? " not finished; --all shows the others too" : "");
	screen_close(&screen);
	return r < 0 ? client_broken(r) : EXIT_DONE;
}

static int list(const struct options *o, struct client *c)
{
	_cleanup_job_list_ struct job_list l = { 0 };
	const struct job_wish wish = {
		.finished = o->all, .states = o->states, .one_user = o->one_user, .uid = o->uid
	};
	int r = job_list_get(c, &wish, &l);
	/* The newest are the last ones. */
	size_t shown = o->lines > 0 ? MIN(l.n, o->lines) : l.n;
	const struct job_line *v = l.n > shown ? l.v + (l.n - shown) : l.v;

	if (r == 0 && o->json != JSON_OFF)
		jobs_json_print(stdout, v, shown, o->json == JSON_PRETTY);
	else if (r == 0 && !o->quiet)
		r = table_show(o, v, shown, l.n);
	return r;
}

int verb_list(const struct options *o, struct client *c)
{
	return o->fleet ? fleet_list(o, c) : list(o, c);
}
