/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl status: the daemon itself, what is wrong with it, and what it does now.
 *
 * With --json, one object. Keys are only ever added.
 *
 *   version, features             of the daemon
 *   paused                        by pause --all
 *   pacing_window                 the pacing window in force, or ""
 *   pacing_window_rate            its rate, 0: no job runs
 *   pacing_window_until_usec      when that changes, 0: never
 *   configuration_error           what is wrong with the configuration on disk, or ""
 *   store_error                   what is wrong with the job store, or ""
 *   orphans                       directories in staging that are of no job: kept
 *   jobs                          {STATE: how many}, of those that have not finished
 *   entries_freed, bytes_freed    since the daemon was started
 *   fleet_host                    what this host is called in its fleet; "": it is in none
 *   fleet_connected               whether it is connected to the database
 *   fleet_since_usec              since when that is so, or not
 *   fleet_error                   why it is not, or ""
 *   trim_timers                   {fstrim, reclaimd, units}: true if fstrim.timer, or a timer of
 *                                 reclaimd, is active; the names of the latter
 *   trims                         the last trim of each filesystem, see trim-state.h; [] if the
 * state directory cannot be read running                       the jobs that are running, as list
 * has them policies                      as policy list has them; null where that is not known
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/common/answer.h"
#include "ctl/common/verbs.h"
#include "ctl/jobs/job-list.h"
#include "ctl/jobs/job-print.h"
#include "ctl/output/messages.h"
#include "ctl/output/timestamps.h"
#include "ctl/policy/policy-state.h"
#include "ctl/trim/trim-state.h"
#include "ctl/trim/trim-timers.h"
#include "base/units.h"

static const struct printed_property table[] = {
	{ "Version", "version" },
	{ "Features", "features" },
	{ "Paused", "paused" },
	{ "PacingWindow", "pacing_window" },
	{ "PacingWindowRate", "pacing_window_rate" },
	{ "PacingWindowUntilUSec", "pacing_window_until_usec" },
	{ "ConfigurationError", "configuration_error" },
	{ "StoreError", "store_error" },
	{ "Orphans", "orphans" },
	{ "Jobs", "jobs" },
	{ "EntriesFreed", "entries_freed" },
	{ "BytesFreed", "bytes_freed" },
	{ "FleetHost", "fleet_host" },
	{ "FleetConnected", "fleet_connected" },
	{ "FleetSinceUSec", "fleet_since_usec" },
	{ "FleetError", "fleet_error" },
};

static void error_line(const struct screen *screen, const char *label, const char *text)
{
	if (text[0])
		(void)printf("%14s: %s%s%s\n", label, screen->colours ? COLOUR_RED : "", text,
			     screen->colours ? COLOUR_OFF : "");
}

static void fleet_line(const json_t *s, const struct screen *screen)
{
	const char *host = json_text(s, "fleet_host"), *error = json_text(s, "fleet_error");
	bool connected = json_is_true(json_object_get(s, "fleet_connected"));
	bool red = !connected && error[0] && screen->colours;
	char moment[TIMESTAMP_SIZE];

	if (!host[0])
		return;
	(void)timestamp_format(moment, sizeof(moment), json_number(s, "fleet_since_usec"),
			       realtime_usec());
	(void)printf("%14s: %s%s to its database as %s since %s", "Fleet", red ? COLOUR_RED : "",
		     connected ? "connected" : "not connected", host, moment);
	(void)printf("%s%s%s\n", connected || !error[0] ? "" : ": ", connected ? "" : error,
		     red ? COLOUR_OFF : "");
}

static void trims_print(const json_t *s)
{
	const json_t *timers = json_object_get(s, "trim_timers"),
		     *trims = json_object_get(s, "trims");
	const json_t *units = json_object_get(timers, "units"), *v;
	bool fstrim = json_is_true(json_object_get(timers, "fstrim"));
	char size[16], when[DISTANCE_SIZE];
	uint64_t now = realtime_usec();
	size_t i;

	if (json_array_size(units) == 0 && fstrim)
		(void)printf("%14s: by fstrim.timer, which does not pace them; see trim: in "
			     "reclaimd.yaml(5)\n",
			     "Trims");
	json_array_foreach(units, i, v)
		(void)printf("%14s%c %s\n", i == 0 ? "Trims" : "", i == 0 ? ':' : ' ',
			     json_string_value(v));
	if (json_array_size(units) > 0 && fstrim)
		(void)printf("%16sfstrim.timer is active too and trims without pacing: systemctl "
			     "disable --now fstrim.timer\n",
			     "");
	json_array_foreach(trims, i, v)
		(void)printf("%14s%c %s: %s %s, %s; longest step %.1fms\n",
			     i == 0 ? "Last trims" : "", i == 0 ? ':' : ' ', json_text(v, "mount"),
			     json_text(v, "outcome"),
			     size_format(size, sizeof(size), json_number(v, "trimmed_bytes")),
			     distance_format(when, json_number(v, "finished_usec"), now),
			     (double)json_number(v, "longest_step_usec") / 1e3);
}

/* "pg-backups: done 9h ago, next in 14h: WHY", one a line. */
static void policies_lines(const json_t *states, const struct screen *screen)
{
	const json_t *state;
	size_t i;

	json_array_foreach(states, i, state) {
		const json_t *last = json_object_get(state, "last");
		const json_t *reasons = json_object_get(last, "why"), *why;
		const char *result = json_text(last, "result"), *error = json_text(state, "error");
		bool red = screen->colours &&
			   (strcmp(result, "failed") == 0 || strcmp(result, "partial") == 0);
		char words[POLICY_WORDS], next[POLICY_WORDS];

		if (json_is_object(last))
			(void)policy_last_format(words, state);
		else
			(void)snprintf(words, sizeof(words), "%s%s",
				       error[0] ? "last run not known: " : "no run yet", error);
		(void)printf("%14s%c %s%s: %s%s, next: %s", i == 0 ? "Policies" : "",
			     i == 0 ? ':' : ' ', red ? COLOUR_RED : "", json_text(state, "name"),
			     words, red ? COLOUR_OFF : "", policy_next_format(next, state));
		if (json_is_false(json_object_get(state, "path_exists")))
			(void)fputs("; its path does not exist", stdout);
		why = json_array_get(reasons, 0);
		(void)printf("%s%s", why ? "; " : "", why ? json_string_value(why) : "");
		if (json_array_size(reasons) > 1)
			(void)printf("; and %zu more: reclaimctl policy list",
				     json_array_size(reasons) - 1);
		(void)putchar('\n');
	}
}

static void status_print(json_t *s, const struct screen *screen)
{
	json_t *features = json_object_get(s, "features");
	uint64_t freed = json_number(s, "entries_freed"), orphans = json_number(s, "orphans");
	char n[28], size[16], window[WINDOW_WORDS];

	(void)printf("%sreclaimd %s%s", screen->colours ? COLOUR_BOLD : "", json_text(s, "version"),
		     screen->colours ? COLOUR_OFF : "");
	for (size_t i = 0; i < json_array_size(features); i++)
		(void)printf("%s%s", i == 0 ? " (" : ", ",
			     json_string_value(json_array_get(features, i)));
	(void)puts(json_array_size(features) > 0 ? ")" : "");
	if (json_is_true(json_object_get(s, "paused")))
		(void)printf("%14s: nothing is deleted until reclaimctl resume --all\n", "Paused");
	(void)window_format(window, json_text(s, "pacing_window"),
			    json_number(s, "pacing_window_rate"),
			    json_number(s, "pacing_window_until_usec"));
	if (window[0])
		(void)printf("%14s: %s\n", "Pacing window", window);
	error_line(screen, "Configuration", json_text(s, "configuration_error"));
	error_line(screen, "Job store", json_text(s, "store_error"));
	fleet_line(s, screen);
	if (orphans > 0)
		(void)printf(
			"%14s: %s of no job on record, kept; the log says where: move what is in "
			"them to its place, or delete it\n",
			"Staging", count_format(n, sizeof(n), orphans));
	(void)printf("%14s: ", "Jobs");
	if (!counts_print(stdout, json_object_get(s, "jobs")))
		(void)fputs("none that have not finished", stdout);
	(void)printf("\n%14s: %s %s, %s since it was started\n", "Deleted",
		     count_format(n, sizeof(n), freed), entries_word(freed),
		     size_format(size, sizeof(size), json_number(s, "bytes_freed")));
	trims_print(s);
	policies_lines(json_object_get(s, "policies"), screen);
}

/* Adds what the configuration on disk, and the records of its policies, say. */
static void policies_add(json_t *s, const struct options *o, struct client *c)
{
	bool wrong;
	json_t *policies = policy_states_of_daemon(o, c, &wrong);

	if (wrong && !json_text(s, "configuration_error")[0])
		(void)json_object_set_new(s, "configuration_error",
					  json_string(CONFIGURATION_WRONG));
	(void)json_object_set_new(s, "policies", policies ? policies : json_null());
}

static json_t *timers_json(const struct trim_timers *t)
{
	json_t *units = json_array();

	for (size_t i = 0; i < t->n_ours; i++)
		(void)json_array_append_new(units, json_string(t->ours[i]));
	return json_pack("{sb sb so}", "fstrim", (int)t->fstrim, "reclaimd", t->n_ours > 0, "units",
			 units);
}

int verb_status(const struct options *o, struct client *c)
{
	_cleanup_job_list_ struct job_list running = { 0 };
	const struct job_wish wish = { .states = "running" };
	_cleanup_trim_timers_ struct trim_timers timers = { 0 };
	json_auto_t *s = NULL;
	struct screen screen;
	int r = properties_get(c, MANAGER_PATH, MANAGER_INTERFACE, table, ELEMENTSOF(table), &s);

	if (r == 0)
		r = job_list_get(c, &wish, &running);
	if (r || (o->quiet && o->json == JSON_OFF))
		return r;
	/* Those are of this machine. */
	if (!o->machine) {
		timers = trim_timers_get();
		(void)json_object_set_new(s, "trim_timers", timers_json(&timers));
		(void)json_object_set_new(s, "trims", trim_state_read(options_state_dir(o)));
		policies_add(s, o, c);
	}
	if (o->json != JSON_OFF) {
		json_t *jobs = json_array();

		for (size_t i = 0; i < running.n; i++)
			(void)json_array_append_new(jobs, job_line_json(&running.v[i]));
		(void)json_object_set_new(s, "running", jobs);
		json_print(json_incref(s), o->json);
		return EXIT_DONE;
	}
	screen_open(&screen, options_page(o));
	status_print(s, &screen);
	if (running.n > 0) {
		(void)putchar('\n');
		r = jobs_table_print(running.v, running.n, &screen, /* titles= */ true);
	}
	screen_close(&screen);
	return r < 0 ? client_broken(r) : EXIT_DONE;
}
