/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl status: the daemon itself, what is wrong with it, and what it does now.
 *
 * With --json, one object. Keys are only ever added.
 *
 *   version, features        of the daemon
 *   paused                   by pause --all
 *   configuration_error      what is wrong with the configuration on disk, or ""
 *   store_error              what is wrong with the job store, or ""
 *   orphans                  directories in staging that are of no job: kept
 *   jobs                     {STATE: how many}, of those that have not finished
 *   entries_freed, bytes_freed   since the daemon was started
 *   running                  the jobs that are running, as list has them
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/common/client.h"
#include "ctl/jobs/job-list.h"
#include "ctl/jobs/job-print.h"
#include "ctl/output/messages.h"
#include "base/escape.h"
#include "base/units.h"
#include "ctl/common/verbs.h"

struct daemon_status {
	sd_bus_message *reply; /* the strings point into it */
	const char *version, *configuration_error, *store_error;
	const char *features[64];
	size_t n_features;
	int paused;
	struct counts jobs; /* by state */
	uint64_t entries_freed, bytes_freed, orphans;
	struct job_list running;
};

static int features_read(sd_bus_message *m, void *to)
{
	struct daemon_status *s = to;
	int r = sd_bus_message_enter_container(m, 'a', "s");

	while (r >= 0 && s->n_features < ELEMENTSOF(s->features)) {
		r = sd_bus_message_read(m, "s", &s->features[s->n_features]);
		if (r <= 0)
			break;
		s->n_features++;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static const struct property table[] = {
	{ "Version", "s", offsetof(struct daemon_status, version), NULL },
	{ "Features", "as", 0, features_read },
	{ "Paused", "b", offsetof(struct daemon_status, paused), NULL },
	{ "ConfigurationError", "s", offsetof(struct daemon_status, configuration_error), NULL },
	{ "StoreError", "s", offsetof(struct daemon_status, store_error), NULL },
	{ "Jobs", "a{st}", offsetof(struct daemon_status, jobs), property_counts },
	{ "EntriesFreed", "t", offsetof(struct daemon_status, entries_freed), NULL },
	{ "BytesFreed", "t", offsetof(struct daemon_status, bytes_freed), NULL },
	{ "Orphans", "t", offsetof(struct daemon_status, orphans), NULL },
};

static int status_get(struct client *c, struct daemon_status *s)
{
	const struct job_wish wish = { .state = "running" };
	int r = properties_get(c, MANAGER_PATH, MANAGER_INTERFACE, &s->reply);

	s->version = s->configuration_error = s->store_error = "";
	if (r)
		return r;
	r = properties_read(s->reply, table, ELEMENTSOF(table), s);
	if (r < 0)
		return client_broken(r);
	return job_list_get(c, &wish, &s->running);
}

static void status_json(const struct options *o, const struct daemon_status *s)
{
	json_t *features = json_array(), *jobs = json_object(), *running = json_array();

	for (size_t i = 0; i < s->n_features; i++)
		(void)json_array_append_new(features, json_string(s->features[i]));
	for (size_t i = 0; i < s->jobs.n; i++)
		(void)json_object_set_new(jobs, s->jobs.v[i].name,
					  json_integer((json_int_t)s->jobs.v[i].n));
	for (size_t i = 0; i < s->running.n; i++)
		(void)json_array_append_new(running, job_line_json(&s->running.v[i]));
	json_print(json_pack("{sssosbsssssIsosIsIso}", "version", s->version, "features", features,
			     "paused", s->paused, "configuration_error", s->configuration_error,
			     "store_error", s->store_error, "orphans", (json_int_t)s->orphans,
			     "jobs", jobs, "entries_freed", (json_int_t)s->entries_freed,
			     "bytes_freed", (json_int_t)s->bytes_freed, "running", running),
		   o->json);
}

static void error_line(const struct screen *screen, const char *label, const char *text)
{
	_cleanup_free_ char *shown = escape_line(text);

	if (text[0])
		(void)printf("%14s: %s%s%s\n", label, screen->colours ? COLOUR_RED : "",
			     shown ? shown : "?", screen->colours ? COLOUR_OFF : "");
}

static void jobs_line(const struct daemon_status *s)
{
	const char *between = "";
	char n[28];

	(void)printf("%14s: ", "Jobs");
	for (size_t i = 0; i < s->jobs.n; i++) {
		if (s->jobs.v[i].n == 0)
			continue;
		(void)printf("%s%s %s", between, count_format(n, sizeof(n), s->jobs.v[i].n),
			     s->jobs.v[i].name);
		between = ", ";
	}
	(void)puts(between[0] ? "" : "none that have not finished");
}

static int status_print(const struct daemon_status *s, const struct screen *screen)
{
	char n[28], size[16];
	int r = 0;

	(void)printf("%sreclaimd %s%s", screen->colours ? COLOUR_BOLD : "", s->version,
		     screen->colours ? COLOUR_OFF : "");
	for (size_t i = 0; i < s->n_features; i++)
		(void)printf("%s%s", i == 0 ? " (" : ", ", s->features[i]);
	(void)puts(s->n_features > 0 ? ")" : "");
	if (s->paused)
		(void)printf("%14s: nothing is deleted until reclaimctl resume --all\n", "Paused");
	error_line(screen, "Configuration", s->configuration_error);
	error_line(screen, "Job store", s->store_error);
	if (s->orphans > 0)
		(void)printf(
			"%14s: %s of no job on record, kept; the log says where: move what is in "
			"them to its place, or delete it\n",
			"Staging", count_format(n, sizeof(n), s->orphans));
	jobs_line(s);
	(void)printf("%14s: %s %s, %s since it was started\n", "Deleted",
		     count_format(n, sizeof(n), s->entries_freed), entries_word(s->entries_freed),
		     size_format(size, sizeof(size), s->bytes_freed));
	if (s->running.n > 0) {
		(void)putchar('\n');
		r = jobs_table_print(s->running.v, s->running.n, screen);
	}
	return r < 0 ? client_broken(r) : EXIT_DONE;
}

static int status_show(const struct options *o, const struct daemon_status *s)
{
	struct screen screen;
	int r;

	if (o->json != JSON_OFF) {
		status_json(o, s);
		return EXIT_DONE;
	}
	if (o->quiet)
		return EXIT_DONE;
	screen_open(&screen, options_page(o));
	r = status_print(s, &screen);
	screen_close(&screen);
	return r;
}

int verb_status(const struct options *o, struct client *c)
{
	struct daemon_status s = { 0 };
	int r = status_get(c, &s);

	if (r == 0)
		r = status_show(o, &s);
	job_list_done(&s.running);
	sd_bus_message_unref(s.reply);
	return r;
}
