/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl show: all there is to know of a job, in words.
 *
 * With --json, an array with one object for each job. Keys are only ever added: those of list, and
 * uuid, staging, inplace, mount, names, skipped, by_usec, message, strategy, problems [{path,
 * what, error, is_error}] and contents [{path, state}]; of both the first thousand.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "job-list.h"
#include "job-print.h"
#include "job-view.h"
#include "ctl/output/timestamps.h"
#include "ctl/output/messages.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "base/escape.h"
#include "base/units.h"
#include "ctl/common/verbs.h"

/* How many names and problems are shown to people, and how many go into JSON. */
#define SHOWN 10U
#define SHOWN_JSON 1000U

static json_t *problems_json(const struct job_view *j)
{
	json_t *array = json_array();

	for (size_t i = 0; i < j->n_problems; i++) {
		const struct job_problem *p = &j->problems[i];

		(void)json_array_append_new(
			array, json_pack("{sosssisb}", "path", json_path(p->path), "what", p->what,
					 "error", p->error, "is_error", (int)p->is_error));
	}
	return array;
}

static json_t *contents_json(const struct job_view *j)
{
	json_t *array = json_array();

	for (size_t i = 0; i < j->n_entry_names; i++)
		(void)json_array_append_new(array, json_pack("{soss}", "path",
							     json_path(j->entry_names[i].path),
							     "state", j->entry_names[i].state));
	return array;
}

static json_t *view_json(const struct job_view *j)
{
	json_t *v = job_line_json(&j->line);

	(void)json_object_update_new(v, json_pack("{sssossso}", "uuid", j->uuid, "staging",
						  json_path(j->staging), "inplace", j->inplace,
						  "mount", json_path(j->mount)));
	(void)json_object_update_new(v, json_pack("{sIsIsIssss}", "names", (json_int_t)j->names,
						  "skipped", (json_int_t)j->skipped, "by_usec",
						  (json_int_t)j->by_usec, "message", j->message,
						  "strategy", j->strategy));
	(void)json_object_set_new(v, "problems", problems_json(j));
	(void)json_object_set_new(v, "contents", contents_json(j));
	return v;
}

static void label(const char *name)
{
	(void)printf("%10s: ", name);
}

static void line(const char *name, const char *value)
{
	_cleanup_free_ char *shown = escape_line(value);

	if (value[0] == '\0')
		return;
	label(name);
	(void)puts(shown ? shown : "?");
}

static void path_line(const char *name, const char *path)
{
	_cleanup_free_ char *shown = escape_name(path);

	line(name, shown ? shown : "?");
}

static void moment_line(const char *name, uint64_t usec)
{
	char moment[TIMESTAMP_SIZE];

	if (usec > 0)
		line(name, timestamp_format(moment, sizeof(moment), usec, realtime_usec()));
}

static void state_line(const struct job_view *j, bool colours)
{
	_cleanup_free_ char *message = escape_line(j->message);
	const char *colour = colours ? state_colour(j->line.state) : "";

	label("State");
	(void)printf("%s%s%s", colour, j->line.state, colour[0] ? COLOUR_OFF : "");
	(void)printf("%s%s\n", j->message[0] ? ": " : "", message ? message : "?");
}

static void user_line(const struct job_view *j)
{
	_cleanup_free_ char *origin = escape_line(j->line.origin);
	char user[40];

	label("User");
	(void)printf("%s (%u), by %s, priority %s\n", user_format(user, sizeof(user), j->line.uid),
		     j->line.uid, origin ? origin : "?", j->line.priority);
}

/* Where it is now: out of the way, or where it was and why. */
static void place_lines(const struct job_view *j)
{
	if (!job_is_finished(j->line.state)) {
		path_line("Staged in", j->staging);
		line("In place", j->inplace);
	}
	path_line("Mount", j->mount);
}

/* What is done, how fast on average, and how long the rest may take at that rate. */
static void progress_lines(const struct job_view *j)
{
	bool running = strcmp(j->line.state, "running") == 0;
	uint64_t end = j->line.finished_usec > 0 ? j->line.finished_usec : realtime_usec();
	double seconds = j->line.started_usec > 0 && end > j->line.started_usec
				 ? (double)(end - j->line.started_usec) / USEC_PER_SEC
				 : 0;
	char entries[60], bytes[40], rate[16], count[28], span[32];

	if (j->line.started_usec == 0 && j->line.entries_done == 0)
		return;
	label("Deleted");
	(void)printf(
		"%s %s, %s freed\n",
		entries_format(entries, sizeof(entries), j->line.entries_done, j->line.entries),
		entries_word(MAX(j->line.entries_done, j->line.entries)),
		bytes_format(bytes, sizeof(bytes), j->line.bytes_freed, j->line.bytes));
	if (seconds < 0.001 || (!running && j->line.finished_usec == 0))
		return;
	label("Rate");
	(void)printf(
		"%s entries/s, %s/s",
		count_format(count, sizeof(count),
			     (uint64_t)((double)j->line.entries_done / seconds)),
		size_format(rate, sizeof(rate), (uint64_t)((double)j->line.bytes_freed / seconds)));
	if (running && j->line.bytes > j->line.bytes_freed && j->line.bytes_freed > 0)
		(void)printf(
			", about %s left",
			timespan_format(span, sizeof(span),
					(uint64_t)((double)(j->line.bytes - j->line.bytes_freed) /
						   (double)j->line.bytes_freed * seconds *
						   USEC_PER_SEC)));
	(void)putchar('\n');
}

static void names_lines(const struct job_view *j)
{
	char n[28];

	if (j->names <= 1)
		return;
	label("Names");
	(void)printf("%s\n", count_format(n, sizeof(n), j->names));
	for (size_t i = 0; i < j->n_entry_names; i++) {
		_cleanup_free_ char *path = escape_name(j->entry_names[i].path);

		(void)printf("%12s%s (%s)\n", "", path ? path : "?", j->entry_names[i].state);
	}
	if (j->names > j->n_entry_names)
		(void)printf("%12sand %s more\n", "",
			     count_format(n, sizeof(n), j->names - j->n_entry_names));
}

static void problems_lines(const struct job_view *j, bool colours)
{
	char errors[28], skipped[28];

	if (j->line.errors + j->skipped + j->n_problems == 0)
		return;
	label("Problems");
	(void)printf("%s not deleted, %s left on purpose\n",
		     count_format(errors, sizeof(errors), j->line.errors),
		     count_format(skipped, sizeof(skipped), j->skipped));
	for (size_t i = 0; i < j->n_problems; i++) {
		const struct job_problem *p = &j->problems[i];
		_cleanup_free_ char *path = escape_name(p->path), *what = escape_line(p->what);

		(void)printf("%12s%s%s%s: %s%s%s\n", "", colours && p->is_error ? COLOUR_RED : "",
			     path ? path : "?", colours && p->is_error ? COLOUR_OFF : "",
			     what ? what : "?", p->error ? ": " : "",
			     p->error ? strerror(p->error) : "");
	}
	if (j->line.errors + j->skipped > j->n_problems && j->n_problems == SHOWN)
		(void)printf("%12sand more: see reclaimctl show --json=pretty %" PRIu64 "\n", "",
			     j->line.id);
}

static void view_print(const struct job_view *j, const struct screen *screen)
{
	_cleanup_free_ char *path = escape_name(j->path);

	(void)printf("%sJob %" PRIu64 "%s: %s\n", screen->colours ? COLOUR_BOLD : "", j->line.id,
		     screen->colours ? COLOUR_OFF : "", path ? path : "?");
	state_line(j, screen->colours);
	user_line(j);
	moment_line("Submitted", j->line.created_usec);
	if (strcmp(j->line.state, "held") == 0)
		moment_line("Held until", j->line.held_until_usec);
	if (!job_is_finished(j->line.state))
		moment_line("Done by", j->by_usec);
	moment_line("Started", j->line.started_usec);
	moment_line("Finished", j->line.finished_usec);
	place_lines(j);
	progress_lines(j);
	line("How", j->strategy);
	names_lines(j);
	problems_lines(j, screen->colours);
	line("UUID", j->uuid);
}

struct show {
	struct options o;
	struct client *client;
	struct screen screen;
	json_t *array; /* with --json */
	size_t shown;
};

static int show_one(struct show *s, uint64_t id)
{
	_cleanup_job_view_ struct job_view j = { 0 };
	int r = job_view_get(s->client, id, s->array ? SHOWN_JSON : SHOWN, &j);

	if (r)
		return r;
	if (s->array) {
		(void)json_array_append_new(s->array, view_json(&j));
	} else if (!s->o.quiet) {
		if (s->shown > 0)
			(void)putchar('\n');
		view_print(&j, &s->screen);
	}
	s->shown++;
	return 0;
}

static int show_all(struct show *s)
{
	int failed = 0;

	for (size_t i = 0; i < s->o.n_paths; i++) {
		uint64_t id;
		int r = job_id_parse(s->o.paths[i], &id);

		if (r)
			return r;
		r = show_one(s, id);
		failed = r ? r : failed;
	}
	return failed && s->shown > 0 ? EXIT_PARTLY : failed;
}

int verb_show(const struct options *o, struct client *c)
{
	struct show s = { .o = *o, .client = c };
	int r;

	if (s.o.json != JSON_OFF)
		s.array = json_array();
	screen_open(&s.screen, options_page(&s.o));
	r = show_all(&s);
	if (s.array)
		json_print(s.array, s.o.json);
	screen_close(&s.screen);
	return r;
}
