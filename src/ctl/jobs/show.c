/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl show: all there is to know of a job, in words.
 *
 * With --json, an array with one object for each job. Keys are only ever added: those of list, and
 * uuid, staging, inplace, mount, names, skipped, by_usec, message, strategy, settling, owed (bytes
 * that are still to be written back on its devices),
 * rate and entries_rate (a second), expected_end_usec (of a job that runs; 0: not known),
 * units_open and others_claimed (while it is shared with other hosts
 * of a fleet), others_units, others_entries and others_bytes (what they have done of it), problems
 * [{path, what, error, is_error}] and contents [{path, state}]; of both the first thousand, or all
 * with --all.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "job-list.h"
#include "job-print.h"
#include "job-view.h"
#include "ctl/common/answer.h"
#include "ctl/output/estimate.h"
#include "ctl/output/timestamps.h"
#include "ctl/output/messages.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "base/units.h"
#include "ctl/common/verbs.h"

/* How many names and problems are shown to people, and how many go into JSON. */
#define SHOWN 10U
#define SHOWN_JSON 1000U

static void line(const char *name, const char *value)
{
	if (value[0])
		(void)printf("%10s: %s\n", name, value);
}

static void moment_line(const char *name, uint64_t usec)
{
	char moment[TIMESTAMP_SIZE];

	if (usec > 0)
		line(name, timestamp_format(moment, sizeof(moment), usec, realtime_usec()));
}

/* What is done, how fast on average, and how long the rest may take at that rate. */
static void progress_lines(const json_t *j, bool running)
{
	uint64_t started = json_number(j, "started_usec"), end = json_number(j, "finished_usec");
	uint64_t entries = json_number(j, "entries"), done = json_number(j, "entries_done");
	uint64_t bytes = json_number(j, "bytes"), freed = json_number(j, "bytes_freed");
	char words[60], sizes[40], rate[16], count[28], span[32];
	uint64_t left;
	bool finished = end > 0;
	double seconds;

	if (started == 0 && done == 0)
		return;
	(void)printf("%10s: %s %s, %s freed\n", "Deleted",
		     entries_format(words, sizeof(words), done, entries, " of "),
		     entries_word(MAX(done, entries)),
		     bytes_format(sizes, sizeof(sizes), freed, bytes));
	end = finished ? end : realtime_usec();
	seconds = started > 0 && end > started ? (double)(end - started) / USEC_PER_SEC : 0;
	if (seconds < 0.001 || (!running && !finished))
		return;
	(void)printf("%10s: %s entries/s, ", "Rate",
		     count_format(count, sizeof(count), (uint64_t)((double)done / seconds)));
	(void)printf("%s/s", size_format(rate, sizeof(rate), (uint64_t)((double)freed / seconds)));
	left = running ? estimate_average(end - started, (double)freed, (double)bytes) : 0;
	if (left > 0)
		(void)printf(", about %s left", timespan_format(span, sizeof(span), left));
	(void)putchar('\n');
}

/* What is still to be written back when all is deleted. */
static void owed_line(const json_t *j)
{
	uint64_t owed = json_number(j, "owed");
	char size[16];

	if (owed > 0)
		(void)printf("%10s: %s to be written back on its devices\n", "Owed",
			     size_format(size, sizeof(size), owed));
}

/* What becomes of it on other hosts. */
static void fleet_line(const json_t *j)
{
	uint64_t open = json_number(j, "units_open"), claimed = json_number(j, "others_claimed");
	uint64_t units = json_number(j, "others_units"), entries = json_number(j, "others_entries");
	char parts[COUNTED_SIZE], done[COUNTED_SIZE], words[COUNTED_SIZE], n[28], size[16];

	if (open + claimed + units + entries == 0)
		return;
	(void)printf("%10s: ", "Fleet");
	if (open + claimed > 0)
		(void)printf("%s at other hosts, %s open%s",
			     counted_format(parts, sizeof(parts), claimed, "part", "parts"),
			     count_format(n, sizeof(n), open), units + entries > 0 ? "; " : "");
	if (units + entries > 0)
		(void)printf("%s done by %s, %s, %s freed",
			     counted_format(done, sizeof(done), units, "part", "parts"),
			     open + claimed > 0 ? "them" : "other hosts",
			     counted_format(words, sizeof(words), entries, "entry", "entries"),
			     size_format(size, sizeof(size), json_number(j, "others_bytes")));
	(void)puts(claimed > 0 ? " (reclaimctl fleet units)" : "");
}

static void names_lines(const json_t *j)
{
	const json_t *contents = json_object_get(j, "contents"), *v;
	uint64_t names = json_number(j, "names");
	char n[28];
	size_t i;

	if (names <= 1)
		return;
	line("Names", count_format(n, sizeof(n), names));
	json_array_foreach(contents, i, v)
		(void)printf("%12s%s (%s)\n", "", json_text(v, "path"), json_text(v, "state"));
	if (names > json_array_size(contents))
		(void)printf("%12sand %s more: reclaimctl show --all %" PRIu64 "\n", "",
			     count_format(n, sizeof(n), names - json_array_size(contents)),
			     json_number(j, "id"));
}

static void problems_lines(const json_t *j, bool colours)
{
	const json_t *problems = json_object_get(j, "problems"), *p;
	uint64_t errors = json_number(j, "errors"), skipped = json_number(j, "skipped");
	char n[28], left[28];
	size_t i;

	if (errors + skipped + json_array_size(problems) == 0)
		return;
	(void)printf("%10s: %s not deleted, %s left on purpose\n", "Problems",
		     count_format(n, sizeof(n), errors), count_format(left, sizeof(left), skipped));
	json_array_foreach(problems, i, p) {
		bool red = colours && json_is_true(json_object_get(p, "is_error"));
		int error = (int)json_number(p, "error");

		(void)printf("%12s%s%s%s: %s%s%s\n", "", red ? COLOUR_RED : "",
			     json_text(p, "path"), red ? COLOUR_OFF : "", json_text(p, "what"),
			     error ? ": " : "", error ? strerror(error) : "");
	}
	if (errors + skipped > json_array_size(problems) && json_array_size(problems) == SHOWN)
		(void)printf("%12sand more: reclaimctl show --all %" PRIu64 "\n", "",
			     json_number(j, "id"));
}

static bool is_waiting_or_running(const json_t *j)
{
	const char *state = json_text(j, "state");

	return strcmp(state, "queued") == 0 || strcmp(state, "running") == 0;
}

/* Of what may be why it does not run, or slowly. */
static int window_get(struct client *c, char window[static WINDOW_WORDS])
{
	static const struct printed_property table[] = {
		{ "PacingWindow", "window" },
		{ "PacingWindowRate", "rate" },
		{ "PacingWindowUntilUSec", "until_usec" },
	};
	json_auto_t *s = NULL;
	int r = properties_get(c, MANAGER_PATH, MANAGER_INTERFACE, table, ELEMENTSOF(table), &s);

	if (r == 0)
		(void)window_format(window, json_text(s, "window"), json_number(s, "rate"),
				    json_number(s, "until_usec"));
	return r;
}

static void view_print(const json_t *j, const char *window, bool colours)
{
	const char *state = json_text(j, "state"), *message = json_text(j, "message");
	const char *colour = colours ? state_colour(state) : "";
	uid_t uid = (uid_t)json_number(j, "uid");
	char user[40];

	(void)printf("%sJob %" PRIu64 "%s: %s\n", colours ? COLOUR_BOLD : "", json_number(j, "id"),
		     colours ? COLOUR_OFF : "", json_text(j, "path"));
	(void)printf("%10s: %s%s%s%s%s\n", "State", colour, state, colour[0] ? COLOUR_OFF : "",
		     message[0] ? ": " : "", message);
	if (strcmp(json_text(j, "kind"), "delete") != 0)
		line("Kind", json_text(j, "kind"));
	(void)printf("%10s: %s (%u), by %s, priority %s\n", "User",
		     user_format(user, sizeof(user), uid), uid, json_text(j, "origin"),
		     json_text(j, "priority"));
	moment_line("Submitted", json_number(j, "created_usec"));
	if (strcmp(state, "held") == 0)
		moment_line("Held until", json_number(j, "held_until_usec"));
	if (!job_is_finished(state))
		moment_line("Done by", json_number(j, "by_usec"));
	if (is_waiting_or_running(j))
		line("Window", window);
	moment_line("Started", json_number(j, "started_usec"));
	moment_line("Finished", json_number(j, "finished_usec"));
	/* Where it is now: out of the way, or where it was and why. */
	if (!job_is_finished(state)) {
		line("Staged in", json_text(j, "staging"));
		line("In place", json_text(j, "inplace"));
	}
	line("Mount", json_text(j, "mount"));
	progress_lines(j, strcmp(state, "running") == 0);
	fleet_line(j);
	owed_line(j);
	line("How", json_text(j, "strategy"));
	names_lines(j);
	problems_lines(j, colours);
	line("UUID", json_text(j, "uuid"));
}

int verb_show(const struct options *o, struct client *c)
{
	bool text = o->json == JSON_OFF && !o->quiet;
	uint32_t shown = o->all ? JOB_VIEW_ALL : text ? SHOWN : SHOWN_JSON;
	json_auto_t *jobs = json_array();
	char window[WINDOW_WORDS] = "";
	struct screen screen;
	int failed = 0;

	screen_open(&screen, options_page(o));
	for (size_t i = 0; i < o->n_paths; i++) {
		json_t *j = NULL;
		uint64_t id;
		int r = job_id_parse(o->paths[i], &id);

		if (r == 0)
			r = job_view_get(c, id, shown, &j);
		failed = r ? r : failed;
		if (r)
			continue;
		if (text && json_array_size(jobs) > 0)
			(void)putchar('\n');
		if (text && !window[0] && is_waiting_or_running(j))
			(void)window_get(c, window);
		if (text)
			view_print(j, window, screen.colours);
		(void)json_array_append_new(jobs, j);
	}
	json_print(json_incref(jobs), o->json);
	screen_close(&screen);
	return failed && json_array_size(jobs) > 0 ? EXIT_PARTLY : failed;
}
