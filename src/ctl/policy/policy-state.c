/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "policy-state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mounts.h"
#include "ctl/common/answer.h"
#include "ctl/jobs/job-list.h"
#include "ctl/output/messages.h"
#include "ctl/output/replace-file.h"
#include "ctl/output/timestamps.h"
#include "policy/scan/scan.h"

#define RECORD_MODE 0600
#define MANAGER "org.freedesktop.systemd1"
/* It says so at once, or not at all. */
#define PATIENCE_USEC (2 * USEC_PER_SEC)

/* ---- the record -------------------------------------------------------------------------------
 */

int policy_result_read(const char *dir, const char *name, struct policy_result *ret)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	ssize_t r;

	*ret = (struct policy_result){ 0 };
	if (snprintf(path, sizeof(path), RESULT_FILE, dir, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	r = fd_read_file(path, RESULT_TEXT_MOST, &text);
	if (r < 0)
		return r == -ENOENT ? 0 : (int)r;
	return result_parse(text, ret);
}

static void record_put(FILE *f, const void *userdata)
{
	result_write(f, userdata);
}

int policy_result_write(const char *dir, const char *name, const struct policy_result *result)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), RESULT_FILE, dir, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return file_replace(path, RECORD_MODE, /* durable= */ true, record_put, result);
}

/* ---- its jobs ---------------------------------------------------------------------------------
 */

static enum result_status status_of(const char *job_state)
{
	return strcmp(job_state, "done") == 0        ? RESULT_DONE
	       : strcmp(job_state, "partial") == 0   ? RESULT_PARTIAL
	       : strcmp(job_state, "cancelled") == 0 ? RESULT_CANCELLED
	       : strcmp(job_state, "restored") == 0  ? RESULT_RESTORED
						     : RESULT_FAILED;
}

static const struct job_line *find(const struct job_list *jobs, uint64_t id)
{
	for (size_t i = 0; i < jobs->n; i++)
		if (jobs->v[i].id == id)
			return &jobs->v[i];
	return NULL;
}

/* Fills *ret, which job_list_done frees. */
static int jobs_ask(struct client *c, const struct policy_result *r, struct job_list *ret)
{
	uint64_t ids[RESULT_JOBS_MOST];
	const struct job_wish wish = { .ids = ids, .n_ids = r->n_jobs };
	bool hushed;
	int error;

	for (size_t i = 0; i < r->n_jobs; i++)
		ids[i] = r->jobs[i].id;
	if (!c || r->n_jobs == 0)
		return EXIT_NO_DAEMON;
	hushed = c->hushed;
	c->hushed = true;
	error = job_list_get(c, &wish, ret);
	c->hushed = hushed;
	return error;
}

/* Says why a job of the last run has not done what it was to do, if a person stopped it. */
static void job_explain(struct policy_result *r, const struct job_line *j)
{
	struct safe_text t;

	if (j->id != r->job || status_of(j->state) < RESULT_CANCELLED)
		return;
	safe_text_format(&t, "job %" PRIu64 " was %s by a person", j->id, j->state);
	result_say(r, &t);
}

static void jobs_take(struct policy_result *r, const struct job_list *jobs)
{
	for (size_t i = 0; i < r->n_jobs;) {
		const struct job_line *j = find(jobs, r->jobs[i].id);

		if (!j) {
			result_job_forget(r, i);
		} else if (job_is_finished(j->state)) {
			job_explain(r, j);
			result_job_ended(r, i, status_of(j->state), j->finished_usec,
					 &(struct policy_sum){ j->entries_done, j->bytes_freed });
		} else {
			i++;
		}
	}
}

void policy_result_refresh(struct client *c, struct policy_result *r)
{
	_cleanup_job_list_ struct job_list jobs = { 0 };

	if (jobs_ask(c, r, &jobs) == 0)
		jobs_take(r, &jobs);
}

/* ---- its units --------------------------------------------------------------------------------
 */

/* Its path, which is the message's; NULL: it is not loaded, or cannot be asked. */
static const char *unit_path(sd_bus *bus, const char *policy, const char *type,
			     sd_bus_message **ret)
{
	const char *path = NULL;
	char unit[96];

	(void)snprintf(unit, sizeof(unit), "reclaimd-policy@%s.%s", policy, type);
	if (!bus ||
	    sd_bus_call_method(bus, MANAGER, "/org/freedesktop/systemd1", MANAGER ".Manager",
			       "GetUnit", NULL, ret, "s", unit) < 0 ||
	    sd_bus_message_read(*ret, "o", &path) < 0)
		return NULL;
	return path;
}

/* When a policy's timer elapses next; 0: it has none that is active, or that cannot be told. */
static uint64_t next_usec(sd_bus *bus, const char *policy)
{
	_cleanup_message_ sd_bus_message *m = NULL;
	const char *path = unit_path(bus, policy, "timer", &m);
	uint64_t usec;

	if (!path || sd_bus_get_property_trivial(bus, MANAGER, path, MANAGER ".Timer",
						 "NextElapseUSecRealtime", NULL, 't', &usec) < 0)
		return 0;
	return usec == UINT64_MAX ? 0 : usec;
}

/* A run of the service that was killed, or could not read the configuration, has recorded nothing:
 * the service has failed, and was started after the last run that has. */
static void take_unrecorded(sd_bus *bus, bool of_user, const char *policy, struct policy_result *r)
{
	_cleanup_message_ sd_bus_message *m = NULL;
	const char *path = unit_path(bus, policy, "service", &m);
	_cleanup_free_ char *state = NULL;
	uint64_t began;

	if (!path ||
	    sd_bus_get_property_string(bus, MANAGER, path, MANAGER ".Unit", "ActiveState", NULL,
				       &state) < 0 ||
	    strcmp(state, "failed") != 0 ||
	    sd_bus_get_property_trivial(bus, MANAGER, path, MANAGER ".Unit",
					"InactiveExitTimestamp", NULL, 't', &began) < 0 ||
	    began <= r->began_usec)
		return;
	*r = (struct policy_result){ .began_usec = began,
				     .success_usec = r->success_usec,
				     .status = RESULT_FAILED,
				     .total = r->total };
	(void)snprintf(r->why, sizeof(r->why),
		       "its service has failed: journalctl %s-u reclaimd-policy@%s",
		       of_user ? "--user " : "", policy);
}

static sd_bus *manager_bus(bool of_user)
{
	sd_bus *bus = NULL;

	if (sd_booted() <= 0 || (of_user ? sd_bus_open_user(&bus) : sd_bus_open_system(&bus)) < 0)
		return NULL;
	(void)sd_bus_set_method_call_timeout(bus, PATIENCE_USEC);
	return bus;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static json_t *sum_json(const struct policy_sum *s)
{
	return json_pack("{sI sI}", "entries", (json_int_t)s->n, "bytes", (json_int_t)s->bytes);
}

static json_t *usec_json(uint64_t usec)
{
	return usec > 0 ? json_integer((json_int_t)usec) : json_null();
}

static json_t *why_json(const char *why)
{
	json_t *list = json_array();

	for (const char *line = why; *line;) {
		size_t len = strcspn(line, "\n");
		struct safe_text t;

		safe_text_format(&t, "%.*s", (int)len, line);
		(void)json_array_append_new(list, json_words(t.line));
		line += len + (line[len] != '\0');
	}
	return list;
}

static json_t *unmet_json(const struct policy_result *r)
{
	json_t *v = json_array();

	for (enum limit limit = 0; limit < LIMITS; limit++)
		if (r->unmet[limit].wanted > 0)
			(void)json_array_append_new(
				v, json_pack("{ss sI sI}", "limit", limit_name(limit), "have",
					     (json_int_t)r->unmet[limit].have, "wanted",
					     (json_int_t)r->unmet[limit].wanted));
	return v;
}

static json_t *last_json(const struct policy_result *r, const char *job_state)
{
	if (r->began_usec == 0)
		return json_null();
	return json_pack(
		"{sI so ss sI sI so so so so so so}", "time_usec", (json_int_t)r->began_usec, "job",
		usec_json(r->job), "result", job_state ? job_state : result_word(r), "entries",
		(json_int_t)r->handed.n, "bytes", (json_int_t)r->handed.bytes, "refused",
		sum_json(&r->refused), "excess", sum_json(&r->excess), "pinned",
		sum_json(&r->pinned), "unmet", unmet_json(r), "gained_bytes",
		r->expected_bytes > 0 ? json_integer((json_int_t)r->gained_bytes) : json_null(),
		"why", why_json(r->why));
}

static json_t *path_text(const char *s)
{
	return s ? json_path(s) : json_null();
}

json_t *policy_paths_json(const struct policy *p)
{
	json_t *v = json_array();
	char *one[2];

	for (char *const *path = policy_paths(p, one); *path; path++)
		(void)json_array_append_new(v, json_path(*path));
	return v;
}

static json_t *match_json(const struct config_policy *p)
{
	json_t *match = json_array();

	for (char **g = p->rules.match; g && *g; g++)
		(void)json_array_append_new(match, json_path(*g));
	return match;
}

static json_t *space_json(const struct policy_space *s)
{
	return json_pack("{so so}", "share", s->is_share ? json_real(s->share) : json_null(),
			 "bytes", s->is_share ? json_null() : json_integer((json_int_t)s->bytes));
}

static json_t *min_free_json(const struct policy *p)
{
	return policy_has_min_free(p)
		       ? json_pack("{so so}", "below", space_json(&p->min_free_below), "until",
				   space_json(&p->min_free_until))
		       : json_null();
}

/* What all policies are looked at with; each may be missing. */
struct view {
	const char *dir;
	struct client *client;
	sd_bus *bus;
	struct mounts mounts;
	bool of_user; /* which the daemon does not watch */
};

/* Is one of its directories not there? Where asking may take for ever, it is not asked for. */
static bool is_absent(const struct view *v, const struct policy *p)
{
	bool absent = false;
	char *one[2];

	for (char *const *path = policy_paths(p, one); *path && v->mounts.n > 0 && !absent;
	     path++) {
		_cleanup_close_ int fd =
			mounts_may_hang(&v->mounts, *path) ? -EAGAIN : scan_base(*path);

		absent = fd == -ENOENT;
	}
	return absent;
}

/* What has become of the runs of the policy with this name. */
static json_t *record_json(const struct view *v, const char *name)
{
	_cleanup_job_list_ struct job_list jobs = { 0 };
	const struct job_line *job = NULL;
	struct policy_result r;
	int error = policy_result_read(v->dir, name, &r);

	if (error < 0)
		r = (struct policy_result){ 0 };
	if (jobs_ask(v->client, &r, &jobs) == 0) {
		jobs_take(&r, &jobs);
		job = find(&jobs, r.job);
	}
	if (error >= 0)
		take_unrecorded(v->bus, v->of_user, name, &r);
	return json_pack("{so so so so so}", "success_usec", usec_json(r.success_usec),
			 "oldest_kept_usec", usec_json(r.oldest_usec), "deleted",
			 sum_json(&r.total), "last",
			 last_json(&r, job && !job_is_finished(job->state) ? job->state : NULL),
			 "error", error < 0 ? json_string(strerror(-error)) : json_null());
}

static json_t *state_json(const struct view *v, const struct config_policy *p)
{
	json_t *state =
		json_pack("{so so so so sb so so sb sb so}", "name", path_text(p->name), "path",
			  path_text(p->rules.path), "paths", policy_paths_json(&p->rules), "match",
			  match_json(p), "rules", (int)policy_has_rules(&p->rules), "min_free",
			  min_free_json(&p->rules), "schedule", path_text(p->schedule), "watched",
			  (int)(!p->schedule && !v->of_user && policy_has_marks(&p->rules)),
			  "path_exists", (int)!is_absent(v, &p->rules), "next_usec",
			  usec_json(p->schedule ? next_usec(v->bus, p->name) : 0));

	(void)json_object_update_new(state, record_json(v, p->name));
	return state;
}

/* Of those that the daemon has, which are in force while the configuration on disk has errors.
 * Rules and directories it does not tell. */
static json_t *states_in_force(const struct options *o, struct client *client)
{
	struct view v = { .dir = options_state_dir(o), .client = client };
	sd_bus_message *reply = NULL;
	json_auto_t *told = NULL;
	json_t *list, *p;
	bool hushed;
	size_t i;
	int r;

	if (!client)
		return NULL;
	hushed = client->hushed;
	client->hushed = true;
	r = client_call(client, MANAGER_PATH, MANAGER_INTERFACE, "ListPolicies", &reply, NULL);
	if (r == 0)
		r = answer_take(reply, "a(sayassbdtbtttstttastt)", NULL, &told);
	client->hushed = hushed;
	if (r != 0)
		return NULL;
	v.bus = manager_bus(/* of_user= */ false);
	list = json_array();
	json_array_foreach(told, i, p) {
		const char *name = json_string_value(json_array_get(p, 0));
		const char *schedule = json_string_value(json_array_get(p, 3));
		json_t *state =
			json_pack("{sO sO sn sO sn sn so sO sn so}", "name", json_array_get(p, 0),
				  "path", json_array_get(p, 1), "paths", "match",
				  json_array_get(p, 2), "rules", "min_free", "schedule",
				  path_text(schedule && schedule[0] ? schedule : NULL), "watched",
				  json_array_get(p, 4), "path_exists", "next_usec",
				  usec_json((uint64_t)json_integer_value(json_array_get(p, 9))));

		(void)json_object_update_new(state, record_json(&v, name ? name : ""));
		(void)json_array_append_new(list, state);
	}
	(void)sd_bus_flush_close_unref(v.bus);
	return list;
}

json_t *policy_states_json(const struct options *o, const struct config *config,
			   struct client *client)
{
	struct view v = { .dir = options_state_dir(o), .client = client, .of_user = o->user };
	json_t *list = json_array();

	if (config->n_policies > 0) {
		v.bus = manager_bus(o->user);
		(void)mounts_read(&v.mounts, "/proc/self/mountinfo");
	}
	for (size_t i = 0; i < config->n_policies; i++)
		(void)json_array_append_new(list, state_json(&v, &config->policies[i]));
	(void)sd_bus_flush_close_unref(v.bus);
	mounts_done(&v.mounts);
	return list;
}

static void pass_over(const struct config_error *e, void *userdata)
{
	(void)e;
	(void)userdata;
}

json_t *policy_states_of_daemon(const struct options *o, struct client *client, bool *ret_wrong)
{
	const char *dir = options_environment_dir("CONFIGURATION_DIRECTORY");
	struct config *config = NULL;
	json_t *list = NULL;
	int r;

	*ret_wrong = false;
	/* One that is not where it usually is may have another configuration. */
	if (o->machine || ((o->runtime_dir || reach_environment_dir()) &&
			   !options_environment_dir("STATE_DIRECTORY")))
		return NULL;
	r = config_load(&config, CONFIG_VENDOR_DIR, dir ? dir : CONFIG_DIR, pass_over, NULL);
	*ret_wrong = r == -EBADMSG;
	if (r >= 0)
		list = policy_states_json(o, config, client);
	else if (*ret_wrong)
		list = states_in_force(o, client);
	config_free(config);
	return list;
}

/* ---- words ------------------------------------------------------------------------------------
 */

char *policy_last_format(char *buf, const json_t *state)
{
	const json_t *last = json_object_get(state, "last");
	char when[DISTANCE_SIZE];

	if (json_is_object(last))
		(void)snprintf(
			buf, POLICY_WORDS, "%s %s", json_text(last, "result"),
			distance_format(when, json_number(last, "time_usec"), realtime_usec()));
	else
		(void)snprintf(buf, POLICY_WORDS, "%s", json_text(state, "error")[0] ? "?" : "-");
	return buf;
}

char *policy_next_format(char *buf, const json_t *state)
{
	uint64_t usec = json_number(state, "next_usec");
	const char *words = json_is_true(json_object_get(state, "watched"))      ? "watched"
			    : json_is_string(json_object_get(state, "schedule")) ? "no timer"
										 : "by hand";

	if (usec > 0)
		return distance_format(buf, usec, realtime_usec());
	(void)snprintf(buf, POLICY_WORDS, "%s", words);
	return buf;
}
