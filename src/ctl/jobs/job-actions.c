/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl cancel, pause, resume, restore and set: what is done with jobs that have been
 * submitted.
 *
 * With --json, an array with one object for each job of which it was done: {id, state, message,
 * priority, by_usec}; state and priority are null where the job is another user's.
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
#include "ctl/output/timestamps.h"
#include "base/fd.h"
#include "ctl/common/verbs.h"

struct job_action {
	const struct options *o;
	struct client *client;
	json_t *array; /* with --json */
	size_t done;
	int (*one)(struct job_action *c, uint64_t id);
	const char *member; /* of act_on_one */

	/* of restore: the place given with --to */
	int to_fd;         /* -1: where it was */
	char to_name[256]; /* "": its own */
};

/* What is so from now on. */
static void changed_print(FILE *out, uint64_t id, const json_t *j)
{
	uint64_t by_usec = json_number(j, "by_usec");
	char when[TIMESTAMP_SIZE] = "";

	if (by_usec > 0)
		(void)timestamp_format(when, sizeof(when), by_usec, realtime_usec());
	(void)fprintf(out, "Job %" PRIu64 " %s: priority %s%s%s", id, json_text(j, "state"),
		      json_text(j, "priority"), when[0] ? ", done by " : "", when);
}

/* What has become of it. A job that may not be shown, because it is another user's, was still
 * done as asked. */
static void job_tell(struct job_action *c, uint64_t id)
{
	json_auto_t *j = NULL;
	struct sentence line;
	FILE *out;
	int r;

	c->done++;
	if (c->o->quiet && !c->array)
		return;
	c->client->hushed = true;
	r = job_view_get(c->client, id, 0, &j);
	c->client->hushed = false;
	if (c->array) {
		(void)json_array_append_new(
			c->array, json_pack("{sIss?ssss?sI}", "id", (json_int_t)id, "state",
					    r ? NULL : json_text(j, "state"), "message",
					    json_text(j, "message"), "priority",
					    r ? NULL : json_text(j, "priority"), "by_usec",
					    (json_int_t)json_number(j, "by_usec")));
		return;
	}
	out = sentence_begin(&line, stdout);
	if (r)
		(void)fprintf(out, "Job %" PRIu64 ": done as asked; no more of it may be seen", id);
	else if (c->o->has_by || c->o->priority)
		changed_print(out, id, j);
	else
		(void)fprintf(out, "Job %" PRIu64 " %s%s%s", id, json_text(j, "state"),
			      json_text(j, "message")[0] ? ": " : "", json_text(j, "message"));
	sentence_end(&line);
}

/* Calls Restore with the place that was given. Returns 0 or an exit status. */
static int restore_one(struct job_action *c, uint64_t id)
{
	sd_bus_message *m = client_message(c->client, MANAGER_PATH, MANAGER_INTERFACE, "Restore");
	int r;

	if (!m)
		return EXIT_FAILED;
	r = sd_bus_message_append(m, "t", id);
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "{sv}");
	if (r >= 0 && c->to_fd >= 0)
		r = sd_bus_message_append(m, "{sv}", "directory", "h", c->to_fd);
	if (r >= 0 && c->to_name[0]) {
		r = option_open(m, "name", "ay");
		if (r >= 0)
			r = sd_bus_message_append_array(m, 'y', c->to_name, strlen(c->to_name));
		r = option_close(m, r);
	}
	if (r >= 0)
		r = sd_bus_message_close_container(m);
	if (r < 0) {
		sd_bus_message_unref(m);
		return client_broken(r);
	}
	/* Names are put back one by one, maybe a million of them. */
	return client_send(c->client, m, UINT64_MAX, NULL);
}

/* Returns 0 or an exit status, as all of these. */
static int change_one(struct job_action *c, uint64_t id)
{
	int r = 0;

	if (c->o->priority)
		r = client_call(c->client, MANAGER_PATH, MANAGER_INTERFACE, "SetPriority", NULL,
				"ats", 1, id, options_priority(c->o));
	if (r == 0 && c->o->has_by)
		r = client_call(c->client, MANAGER_PATH, MANAGER_INTERFACE, "SetDeadline", NULL,
				"att", 1, id, c->o->by_usec);
	return r;
}

static int act_on_one(struct job_action *c, uint64_t id)
{
	return client_call(c->client, MANAGER_PATH, MANAGER_INTERFACE, c->member, NULL, "at", 1,
			   id);
}

/* Each job by itself, so that one that cannot be found leaves the others as they are. */
static int each_job(struct job_action *c)
{
	int failed = 0;

	for (size_t i = 0; i < c->o->n_paths; i++) {
		uint64_t id;
		int r = job_id_parse(c->o->paths[i], &id);

		if (r)
			return r;
		r = c->one(c, id);
		if (r == 0)
			job_tell(c, id);
		else
			failed = r;
	}
	return failed && c->done > 0 ? EXIT_PARTLY : failed;
}

/* --to: an existing directory, into which it goes under its own name, or a name of its own. */
static int place_find(struct job_action *c)
{
	_cleanup_free_ char *dir = NULL;
	const char *why = NULL;
	bool slash;
	int r;

	if (!c->o->to)
		return 0;
	c->to_fd = intake_open_dir(c->o->to, &why);
	if (c->to_fd >= 0)
		return 0;
	r = intake_split(c->o->to, &dir, c->to_name, &slash, &why);
	if (r >= 0 && slash) {
		why = "is no directory";
		r = -ENOTDIR;
	}
	if (r >= 0)
		r = c->to_fd = intake_open_dir(dir, &why);
	if (r >= 0)
		return 0;
	complain(c->o->to[0] ? c->o->to : "''", "%s", why);
	return EXIT_FAILED;
}

static int action_call(const struct options *o, struct client *client,
		       int (*one)(struct job_action *c, uint64_t id), const char *member)
{
	struct job_action c = { .o = o,
				.client = client,
				.array = o->json != JSON_OFF ? json_array() : NULL,
				.one = one,
				.member = member,
				.to_fd = -1 };
	int r = place_find(&c);

	if (r == 0)
		r = each_job(&c);
	json_print(c.array, o->json);
	fd_closep(&c.to_fd);
	return r;
}

static int all_jobs(const struct options *o, struct client *client, const char *member,
		    const char *words)
{
	int r = client_call(client, MANAGER_PATH, MANAGER_INTERFACE, member, NULL, NULL);

	if (o->json != JSON_OFF)
		json_print(json_array(), o->json);
	else if (r == 0 && !o->quiet)
		(void)puts(words);
	return r;
}

int verb_cancel(const struct options *o, struct client *c)
{
	return action_call(o, c, act_on_one, "Cancel");
}

int verb_pause(const struct options *o, struct client *c)
{
	return o->all ? all_jobs(o, c, "PauseAll",
				 "Nothing is deleted any more until: reclaimctl resume --all")
		      : action_call(o, c, act_on_one, "Pause");
}

int verb_resume(const struct options *o, struct client *c)
{
	return o->all ? all_jobs(o, c, "ResumeAll",
				 "Jobs go on, but for those that were paused one by one")
		      : action_call(o, c, act_on_one, "Resume");
}

int verb_restore(const struct options *o, struct client *c)
{
	return action_call(o, c, restore_one, NULL);
}

int verb_set(const struct options *o, struct client *c)
{
	return action_call(o, c, change_one, NULL);
}
