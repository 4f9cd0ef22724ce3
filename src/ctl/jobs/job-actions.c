/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl cancel, pause, resume and restore: what is done with jobs that have been submitted.
 *
 * With --json, an array with one object for each job of which it was done: {id, state, message};
 * state is null where the job is another user's.
 * Keys are only ever added.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/common/client.h"
#include "engine/guard/path-intake.h"
#include "job-view.h"
#include "ctl/output/messages.h"
#include "base/fd.h"
#include "ctl/common/verbs.h"

struct job_action {
	struct options o;
	struct client *client;
	const char *member;
	json_t *array; /* with --json */
	size_t done;

	/* of restore: the place given with --to */
	int to_fd;         /* -1: where it was */
	char to_name[256]; /* "": its own */
};

static void state_print(const struct job_view *j)
{
	struct sentence line;
	FILE *out = sentence_begin(&line, stdout);

	(void)fprintf(out, "Job %" PRIu64 " %s%s%s", j->line.id, j->line.state,
		      j->message[0] ? ": " : "", j->message);
	sentence_end(&line);
}

/* What has become of it. A job that may not be shown, because it is another user's, was still
 * done as asked. */
static void job_tell(struct job_action *c, uint64_t id)
{
	_cleanup_job_view_ struct job_view j = { 0 };
	int r;

	c->done++;
	if (c->o.quiet && !c->array)
		return;
	client_hush(c->client, true);
	r = job_view_get(c->client, id, 0, &j);
	client_hush(c->client, false);
	if (r && c->array)
		(void)json_array_append_new(c->array, json_pack("{sIsnss}", "id", (json_int_t)id,
								"state", "message", ""));
	else if (r)
		(void)printf("Job %" PRIu64 ": done as asked; no more of it may be seen\n", id);
	else if (c->array)
		(void)json_array_append_new(c->array,
					    json_pack("{sIssss}", "id", (json_int_t)id, "state",
						      j.line.state, "message", j.message));
	else
		state_print(&j);
}

static int place_append(sd_bus_message *m, const struct job_action *c)
{
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	if (r >= 0 && c->to_fd >= 0)
		r = sd_bus_message_append(m, "{sv}", "directory", "h", c->to_fd);
	if (r >= 0 && c->to_name[0]) {
		r = sd_bus_message_open_container(m, 'e', "sv");
		if (r >= 0)
			r = sd_bus_message_append(m, "s", "name");
		if (r >= 0)
			r = sd_bus_message_open_container(m, 'v', "ay");
		if (r >= 0)
			r = sd_bus_message_append_array(m, 'y', c->to_name, strlen(c->to_name));
		for (int i = 0; r >= 0 && i < 2; i++)
			r = sd_bus_message_close_container(m);
	}
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int restore_one(struct job_action *c, uint64_t id)
{
	sd_bus_message *m = client_message(c->client, MANAGER_PATH, MANAGER_INTERFACE, "Restore");
	int r;

	if (!m)
		return EXIT_FAILED;
	r = sd_bus_message_append(m, "t", id);
	if (r >= 0)
		r = place_append(m, c);
	if (r < 0) {
		sd_bus_message_unref(m);
		return client_broken(r);
	}
	/* Names are put back one by one, maybe a million of them. */
	return client_send(c->client, m, UINT64_MAX, NULL);
}

/* Each job by itself, so that one that cannot be found leaves the others as they are. */
static int each_job(struct job_action *c, bool restore)
{
	int failed = 0;

	for (size_t i = 0; i < c->o.n_paths; i++) {
		uint64_t id;
		int r = job_id_parse(c->o.paths[i], &id);

		if (r)
			return r;
		r = restore ? restore_one(c, id)
			    : client_call(c->client, MANAGER_PATH, MANAGER_INTERFACE, c->member,
					  NULL, "at", 1, id);
		if (r == 0)
			job_tell(c, id);
		else
			failed = r;
	}
	return failed && c->done > 0 ? EXIT_PARTLY : failed;
}

static int all_jobs(struct job_action *c, const char *member, const char *words)
{
	int r = client_call(c->client, MANAGER_PATH, MANAGER_INTERFACE, member, NULL, NULL);

	if (r == 0 && !c->o.quiet && !c->array)
		(void)puts(words);
	return r;
}

static int control_begin(struct job_action *c, const struct options *o, struct client *client)
{
	c->o = *o;
	c->client = client;
	c->to_fd = -1;
	if (!o->no_ask_password && isatty(STDIN_FILENO))
		client_ask_password(client);
	if (o->json != JSON_OFF)
		c->array = json_array();
	return 0;
}

static int control_end(struct job_action *c, int status)
{
	if (c->array)
		json_print(c->array, c->o.json);
	fd_closep(&c->to_fd);
	return status;
}

int verb_cancel(const struct options *o, struct client *client)
{
	struct job_action c = { .member = "Cancel" };
	int r = control_begin(&c, o, client);

	return control_end(&c, r ? r : each_job(&c, false));
}

int verb_pause(const struct options *o, struct client *client)
{
	struct job_action c = { .member = "Pause" };
	int r = control_begin(&c, o, client);

	if (r == 0 && c.o.all)
		r = all_jobs(&c, "PauseAll",
			     "Nothing is deleted any more until: reclaimctl resume --all");
	else if (r == 0)
		r = each_job(&c, false);
	return control_end(&c, r);
}

int verb_resume(const struct options *o, struct client *client)
{
	struct job_action c = { .member = "Resume" };
	int r = control_begin(&c, o, client);

	if (r == 0 && c.o.all)
		r = all_jobs(&c, "ResumeAll",
			     "Jobs go on, but for those that were paused one by one");
	else if (r == 0)
		r = each_job(&c, false);
	return control_end(&c, r);
}

/* --to: an existing directory, into which it goes under its own name, or a name of its own. */
static int place_find(struct job_action *c)
{
	_cleanup_free_ char *dir = NULL;
	const char *why = NULL;
	bool slash;
	int r;

	if (!c->o.to)
		return 0;
	c->to_fd = intake_open_dir(c->o.to, &why);
	if (c->to_fd >= 0)
		return 0;
	r = intake_split(c->o.to, &dir, c->to_name, &slash, &why);
	if (r >= 0 && slash) {
		why = "is no directory";
		r = -ENOTDIR;
	}
	if (r >= 0)
		r = c->to_fd = intake_open_dir(dir, &why);
	if (r >= 0)
		return 0;
	complain(c->o.to[0] ? c->o.to : "''", "%s", why);
	return EXIT_FAILED;
}

int verb_restore(const struct options *o, struct client *client)
{
	struct job_action c = { .member = "Restore" };
	int r = control_begin(&c, o, client);

	if (r == 0)
		r = place_find(&c);
	return control_end(&c, r ? r : each_job(&c, true));
}
