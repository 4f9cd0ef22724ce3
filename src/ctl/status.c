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

#define STATES_MOST 16

struct status {
	sd_bus_message *reply; /* the strings point into it */
	const char *version, *configuration_error, *store_error;
	const char *features[64];
	size_t n_features;
	int paused;
	struct {
		const char *state;
		uint64_t n;
	} jobs[STATES_MOST];
	size_t n_jobs;
	uint64_t entries_freed, bytes_freed, orphans;
	struct job_list running;
};

static int features_read(sd_bus_message *m, struct status *s)
{
	int r = sd_bus_message_enter_container(m, 'v', "as");

	if (r >= 0)
		r = sd_bus_message_enter_container(m, 'a', "s");
	while (r >= 0 && s->n_features < ELEMENTSOF(s->features)) {
		r = sd_bus_message_read(m, "s", &s->features[s->n_features]);
		if (r <= 0)
			break;
		s->n_features++;
	}
	if (r >= 0)
		r = sd_bus_message_exit_container(m);
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int jobs_read(sd_bus_message *m, struct status *s)
{
	int r = sd_bus_message_enter_container(m, 'v', "a{st}");

	if (r >= 0)
		r = sd_bus_message_enter_container(m, 'a', "{st}");
	while (r >= 0 && s->n_jobs < STATES_MOST) {
		r = sd_bus_message_read(m, "{st}", &s->jobs[s->n_jobs].state,
					&s->jobs[s->n_jobs].n);
		if (r <= 0)
			break;
		s->n_jobs++;
	}
	if (r >= 0)
		r = sd_bus_message_exit_container(m);
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int property_read(sd_bus_message *m, struct status *s)
{
	const struct {
		const char *name, *type;
		void *to;
	} simple[] = {
		{ "Version", "s", &s->version },
		{ "Paused", "b", &s->paused },
		{ "ConfigurationError", "s", &s->configuration_error },
		{ "StoreError", "s", &s->store_error },
		{ "EntriesFreed", "t", &s->entries_freed },
		{ "BytesFreed", "t", &s->bytes_freed },
		{ "Orphans", "t", &s->orphans },
	};
	const char *name;
	int r = sd_bus_message_read(m, "s", &name);

	if (r < 0)
		return r;
	if (strcmp(name, "Features") == 0)
		return features_read(m, s);
	if (strcmp(name, "Jobs") == 0)
		return jobs_read(m, s);
	for (size_t i = 0; i < ELEMENTSOF(simple); i++)
		if (strcmp(name, simple[i].name) == 0)
			return sd_bus_message_read(m, "v", simple[i].type, simple[i].to);
	/* A newer daemon may tell more. */
	return sd_bus_message_skip(m, "v");
}

static int properties_read(struct status *s)
{
	int r = sd_bus_message_enter_container(s->reply, 'a', "{sv}");

	while (r >= 0) {
		r = sd_bus_message_enter_container(s->reply, 'e', "sv");
		if (r <= 0)
			break;
		r = property_read(s->reply, s);
		if (r >= 0)
			r = sd_bus_message_exit_container(s->reply);
	}
	return r;
}

static int status_get(struct client *c, struct status *s)
{
	const struct job_wish wish = { .state = "running" };
	int r = client_call(c, MANAGER_PATH, "org.freedesktop.DBus.Properties", "GetAll", &s->reply,
			    "s", MANAGER_INTERFACE);

	s->version = s->configuration_error = s->store_error = "";
	if (r)
		return r;
	r = properties_read(s);
	if (r < 0)
		return client_broken(r);
	return job_list_get(c, &wish, &s->running);
}

static void status_json(const struct options *o, const struct status *s)
{
	json_t *features = json_array(), *jobs = json_object(), *running = json_array();

	for (size_t i = 0; i < s->n_features; i++)
		(void)json_array_append_new(features, json_string(s->features[i]));
	for (size_t i = 0; i < s->n_jobs; i++)
		(void)json_object_set_new(jobs, s->jobs[i].state,
					  json_integer((json_int_t)s->jobs[i].n));
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

static void jobs_line(const struct status *s)
{
	const char *between = "";
	char n[28];

	(void)printf("%14s: ", "Jobs");
	for (size_t i = 0; i < s->n_jobs; i++) {
		if (s->jobs[i].n == 0)
			continue;
		(void)printf("%s%s %s", between, count_format(n, sizeof(n), s->jobs[i].n),
			     s->jobs[i].state);
		between = ", ";
	}
	(void)puts(between[0] ? "" : "none that have not finished");
}

static int status_print(const struct status *s, const struct screen *screen)
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

static int status_show(const struct options *o, const struct status *s)
{
	struct screen screen;
	int r;

	if (o->json != JSON_OFF) {
		json_init();
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

int verb_status(int argc, char **argv)
{
	_cleanup_client_ struct client *c = NULL;
	struct status s = { 0 };
	struct options o;
	int r = options_parse(&o, VERB_STATUS, argc, argv);

	if (r == 0)
		r = client_open(&c, &o, /* socket_first= */ false);
	if (r == 0)
		r = status_get(c, &s);
	if (r == 0)
		r = status_show(&o, &s);
	job_list_done(&s.running);
	sd_bus_message_unref(s.reply);
	return r;
}
