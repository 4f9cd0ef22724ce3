/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl list: the jobs as a table.
 *
 * With --json, an array with one object for each job; see job-print.h for its keys. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "job-list.h"
#include "job-print.h"
#include "moments.h"
#include "output.h"
#include "screen.h"
#include "table.h"
#include "util/escape.h"
#include "util/units.h"
#include "verbs.h"

enum column { JOB, STATE, USER, PRIORITY, ORIGIN, ENTRIES, FREED, WHEN, PATH, COLUMNS };

static const char *const titles[COLUMNS] = { "JOB",     "STATE", "USER", "PRIORITY", "ORIGIN",
					     "ENTRIES", "FREED", "WHEN", "PATH" };
static const unsigned flags[COLUMNS] = {
	[JOB] = COLUMN_RIGHT,
	[STATE] = COLUMN_STATE,
	[ENTRIES] = COLUMN_RIGHT,
	[FREED] = COLUMN_RIGHT,
};

/* What is most worth knowing: when it goes, since when it goes, how long it waits, when it ended.
 */
static char *when_format(char *buf, size_t len, const struct job_line *j, uint64_t now)
{
	if (strcmp(j->state, "held") == 0)
		return moment_distance(buf, len, j->held_until_usec, now);
	if (j->finished_usec > 0)
		return moment_distance(buf, len, j->finished_usec, now);
	if (strcmp(j->state, "running") == 0 && j->started_usec > 0)
		return moment_distance(buf, len, j->started_usec, now);
	return moment_distance(buf, len, j->created_usec, now);
}

static int row_add(struct table *t, const struct job_line *j, uint64_t now)
{
	_cleanup_free_ char *path = escape_name(j->path), *origin = escape_name(j->origin);
	char id[24], user[40], entries[60], freed[40], when[48];
	const char *cells[COLUMNS];
	int r = path && origin ? 0 : -ENOMEM;

	(void)snprintf(id, sizeof(id), "%" PRIu64, j->id);
	cells[JOB] = id;
	cells[STATE] = j->state;
	cells[USER] = user_format(user, sizeof(user), j->uid);
	cells[PRIORITY] = j->priority;
	cells[ORIGIN] = origin;
	cells[ENTRIES] = entries_format(entries, sizeof(entries), j->entries_done, j->entries);
	cells[FREED] = bytes_format(freed, sizeof(freed), j->bytes_freed, j->bytes);
	cells[WHEN] = when_format(when, sizeof(when), j, now);
	cells[PATH] = path;
	for (size_t c = 0; r >= 0 && c < COLUMNS; c++)
		r = table_add(t, cells[c]);
	return r;
}

/* Columns in which all is as usual are left out. */
static void dull_hide(struct table *t, const struct job_list *l)
{
	bool priorities = false, origins = false;

	for (size_t i = 0; i < l->n; i++) {
		priorities = priorities || strcmp(l->v[i].priority, "normal") != 0;
		origins = origins || strcmp(l->v[i].origin, "submit") != 0;
	}
	if (!priorities)
		table_hide(t, PRIORITY);
	if (!origins)
		table_hide(t, ORIGIN);
}

static int table_show(const struct options *o, const struct job_list *l)
{
	struct table *t = table_new(titles, flags, COLUMNS);
	uint64_t now = realtime_usec();
	struct screen screen;
	int r = t ? 0 : -ENOMEM;
	char n[28];

	for (size_t i = 0; r >= 0 && i < l->n; i++)
		r = row_add(t, &l->v[i], now);
	if (r >= 0) {
		screen_open(&screen, o);
		dull_hide(t, l);
		table_print(t, stdout, screen.width, screen.colours);
		(void)printf("\n%s %s%s\n", count_format(n, sizeof(n), l->n),
			     l->n == 1 ? "job" : "jobs",
			     o->all ? "" : " not finished; --all shows the others too");
		screen_close(&screen);
	}
	table_free(t);
	return r < 0 ? client_broken(r) : EXIT_DONE;
}

static void json_show(const struct options *o, const struct job_list *l)
{
	json_t *array = json_array();

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
