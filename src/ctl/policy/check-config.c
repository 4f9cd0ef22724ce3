/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl check-config: reads the daemon's configuration as the daemon would, or with --user the
 * policies of a user, and says what is wrong with it. Changes nothing.
 *
 * With --json, one object. Keys are only ever added.
 *
 *   files   what was read, in this order; empty if there was nothing or something is wrong
 *   errors  [{file, line, column, text}]: line and column from 1, 0 for the whole file
 *   warnings  the same, of what is no error, but surely not meant
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "check-fleet.h"
#include "ctl/output/messages.h"
#include "policies.h"
#include "policy-state.h"
#include "policy/scan/owners.h"
#include "policy/scan/scan.h"
#include "ctl/common/verbs.h"
#include "ctl/common/options.h"
#include "ctl/trim/trim-timers.h"

struct check {
	struct options o;
	struct config *config;
	json_t *errors, *warnings; /* with --json */
	bool wrong;                /* something that only this host can tell */
};

static void error_tell(const struct config_error *e, void *userdata)
{
	struct check *c = userdata;

	if (c->o.json != JSON_OFF) {
		(void)json_array_append_new(e->is_warning ? c->warnings : c->errors,
					    json_pack("{so sI sI so}", "file", json_path(e->file),
						      "line", (json_int_t)e->line, "column",
						      (json_int_t)e->column, "text",
						      json_path(e->text)));
	} else if (!e->is_warning || !c->o.quiet) {
		config_error_print(e);
	}
}

static int check_read(struct check *c)
{
	const char *path = c->o.n_paths > 0 ? c->o.paths[0] : NULL;
	struct stat st;

	if (c->o.user)
		return config_load_user(&c->config, path, error_tell, c);
	if (!path)
		return config_load(&c->config, CONFIG_VENDOR_DIR, CONFIG_DIR, error_tell, c);
	if (stat(path, &st) >= 0 && S_ISDIR(st.st_mode))
		return config_load(&c->config, NULL, path, error_tell, c);
	return config_load_file(&c->config, path, error_tell, c);
}

/* Does a tool of systemd's fail? Where it is not installed, that is not known. */
static bool tool_fails(const char *const *words)
{
	posix_spawn_file_actions_t files;
	int r = posix_spawn_file_actions_init(&files), status = 0;
	pid_t pid;

	if (r != 0)
		return false;
	for (int fd = STDIN_FILENO; r == 0 && fd <= STDERR_FILENO; fd++)
		r = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	if (r == 0)
		r = posix_spawnp(&pid, words[0], &files, NULL, (char *const *)words, environ);
	(void)posix_spawn_file_actions_destroy(&files);
	if (r != 0)
		return false;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE;
}

static bool schedule_is_wrong(const char *schedule)
{
	const char *const words[] = { "systemd-analyze", "calendar", "--", schedule, NULL };

	return tool_fails(words);
}

static _printf_(4, 5) void place_tell(struct check *c, const struct config_place *place,
				      bool is_warning, const char *format, ...)
{
	char text[PATH_MAX + 512];
	const struct config_error e = { .file = place->file,
					.line = place->line,
					.column = place->column,
					.is_warning = is_warning,
					.text = text };
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	error_tell(&e, c);
	c->wrong = c->wrong || !is_warning;
}

/* What a policy goes by, and the filesystem of its directory does not have. */
static void filesystem_check(struct check *c, const struct config_policy *p, const char *path,
			     int fd)
{
	unsigned missing = scan_missing_ages(fd, &p->rules);
	struct statvfs st;

	if (missing)
		place_tell(c, &p->path_place, /* is_warning= */ true,
			   "policies: %s: age-by: %s %s (now), so nothing is deleted there",
			   p->name, path, scan_missing_words(missing));
	if (policy_has_min_inodes(&p->rules) && fstatvfs(fd, &st) >= 0 && st.f_files == 0)
		place_tell(
			c, &p->path_place, /* is_warning= */ true,
			"policies: %s: min-free-inodes: %s is on a filesystem without a limit of "
			"inodes (now), so it does nothing there",
			p->name, path);
}

/* What is not there may be made or mounted later, as at boot. */
static void path_check(struct check *c, const struct config_policy *p, const char *path)
{
	_cleanup_close_ int fd = scan_base(path);
	const char *wrong = fd == -ELOOP     ? "has a symbolic link in it, expected the path that "
					       "realpath(1) prints"
			    : fd == -ENOTDIR ? "is not a directory, expected one"
			    : fd == -ENOENT  ? "does not exist (now), so nothing is deleted there"
					     : NULL;

	if (wrong)
		place_tell(c, &p->path_place, fd == -ENOENT, "policies: %s: %s: %s %s", p->name,
			   p->rules.paths ? "paths" : "path", path, wrong);
	else if (fd >= 0)
		filesystem_check(c, p, path, fd);
}

static void hook_check(struct check *c, const char *unit, const struct config_place *place,
		       const char *where, const char *key)
{
	const char *const words[] = { "systemctl", "cat", "--", unit, NULL };
	const char *wrong = !unit               ? NULL
			    : sd_booted() <= 0  ? "there is no systemd here that could start it"
			    : tool_fails(words) ? "systemd has no such unit"
						: NULL;

	if (wrong)
		place_tell(c, place, /* is_warning= */ true, "%s: %s: %s: %s", where, key, unit,
			   wrong);
}

static void hooks_check(struct check *c, const struct config_hooks *h, const char *section,
			const char *name)
{
	char where[PATH_MAX + 16];

	(void)snprintf(where, sizeof(where), "%s: %s", section, name);
	hook_check(c, h->on_success, &h->success_place, where, "on-success");
	hook_check(c, h->on_failure, &h->failure_place, where, "on-failure");
}

/* Who is not known may be later, as when the user database is a server's. */
static void owners_check(struct check *c, const struct config_policy *p)
{
	struct owners owners = { 0 };
	const char *unknown = NULL;

	if (owners_find(&owners, p->rules.owners, &unknown) == -ESRCH)
		place_tell(c, &p->owner_place, /* is_warning= */ true,
			   "policies: %s: owner: there is no user %s (now), so the policy does not "
			   "run",
			   p->name, unknown);
	owners_done(&owners);
}

static void schedule_check(struct check *c, const char *where, const char *schedule,
			   const struct config_place *place)
{
	if (schedule && schedule_is_wrong(schedule))
		place_tell(c, place, /* is_warning= */ false,
			   "%s: schedule: found \"%.200s\", expected when, as OnCalendar= of "
			   "systemd.timer(5) has it: see systemd-analyze calendar",
			   where, schedule);
}

/* "policies: NAME", of 64 letters at most. */
#define POLICY_WHERE 80

static const char *policy_where(char buf[static POLICY_WHERE], const struct config_policy *p)
{
	(void)snprintf(buf, POLICY_WHERE, "policies: %s", p->name);
	return buf;
}

/* Reports what the first run of a policy would not do: it may exceed max-delete, or not meet a
 * limit. A configuration that is not in force has no results, so its policies have never run. */
static void first_run_check(struct check *c, struct policy_session *s,
			    const struct config_policy *p)
{
	struct policy_result last = { 0 };
	json_t *notes, *note;
	size_t i;

	if (c->o.n_paths == 0 &&
	    policy_result_read(options_state_dir(&c->o), p->name, &last) >= 0 &&
	    last.began_usec > 0)
		return;
	notes = policy_first_notes(s, p);
	json_array_foreach(notes, i, note)
		place_tell(c, &p->place, /* is_warning= */ true, "policies: %s: its first run: %s",
			   p->name, json_string_value(note));
	json_decref(notes);
}

static void first_runs_check(struct check *c)
{
	struct policy_session s = { .o = c->o, .config = c->config };

	/* The results in the state directory are not those of these policies. */
	if (c->o.n_paths > 0)
		s.o.configuration_dir = c->o.paths[0];
	if (c->o.quiet || c->config->n_policies == 0 || policy_prepare(&s) != 0)
		return;
	for (size_t i = 0; i < c->config->n_policies; i++)
		first_run_check(c, &s, &c->config->policies[i]);
	policy_session_done(&s);
}

static void policy_check(struct check *c, const struct config_policy *p)
{
	char *one[2], where[POLICY_WHERE];

	for (char *const *path = policy_paths(&p->rules, one); *path; path++)
		path_check(c, p, *path);
	hooks_check(c, &p->hooks, "policies", p->name);
	owners_check(c, p);
	schedule_check(c, policy_where(where, p), p->schedule, &p->schedule_place);
}

static void timer_check(struct check *c, const char *where, const struct config_place *place,
			bool is_active)
{
	const char *user = c->o.user ? "--user " : "";

	if (!is_active && sd_booted() > 0)
		place_tell(c, place, /* is_warning= */ true,
			   "%s: schedule: its timer is not active: systemctl %sdaemon-reload && "
			   "systemctl %sstart timers.target",
			   where, user, user);
}

/* Of a configuration that is in force there is more to know: how its policies are. */
static void state_check(struct check *c, const struct config_policy *p, const json_t *state)
{
	const json_t *last = json_object_get(state, "last"), *why = json_object_get(last, "why");
	const char *result = json_text(last, "result");
	char words[POLICY_WORDS], where[POLICY_WHERE];

	if (p->schedule)
		timer_check(c, policy_where(where, p), &p->schedule_place,
			    json_number(state, "next_usec") > 0);
	if (strcmp(result, "partial") == 0 || strcmp(result, "failed") == 0)
		place_tell(c, &p->place, /* is_warning= */ true,
			   "policies: %s: its last run: %s: %s", p->name,
			   policy_last_format(words, state),
			   json_array_size(why) > 0 ? json_string_value(json_array_get(why, 0))
						    : "see reclaimctl policy list");
}

static void states_check(struct check *c)
{
	struct client *client = client_try(&c->o, /* socket_first= */ false);
	json_t *states = policy_states_json(&c->o, c->config, client);

	for (size_t i = 0; i < c->config->n_policies; i++)
		state_check(c, &c->config->policies[i], json_array_get(states, i));
	json_decref(states);
	client_free(client);
}

/* "trim: filesystems: PATH" */
#define TRIM_WHERE (PATH_MAX + 32)

static const char *trim_where(char buf[static TRIM_WHERE], const struct config_trim *t)
{
	(void)snprintf(buf, TRIM_WHERE, "trim: filesystems: %s", t->mount);
	return buf;
}

static void trims_check(struct check *c)
{
	char where[TRIM_WHERE];

	schedule_check(c, "trim", c->config->trim_schedule, &c->config->trim_schedule_place);
	for (size_t i = 0; i < c->config->n_trims; i++) {
		const struct config_trim *t = &c->config->trims[i];

		schedule_check(c, trim_where(where, t), t->schedule, &t->schedule_place);
	}
}

/* Where the first schedule of trims is; NULL: there is none. */
static const struct config_place *trim_place(const struct config *config)
{
	if (config_trims_together(config))
		return &config->trim_schedule_place;
	for (size_t i = 0; i < config->n_trims; i++)
		if (config->trims[i].schedule)
			return &config->trims[i].schedule_place;
	return NULL;
}

static void trim_timers_check(struct check *c)
{
	const struct config_place *first = trim_place(c->config);
	_cleanup_trim_timers_ struct trim_timers timers = { 0 };
	char where[TRIM_WHERE], unit[CONFIG_TRIM_TIMER_MOST];

	if (!first)
		return;
	timers = trim_timers_get();
	if (timers.fstrim)
		place_tell(c, first, /* is_warning= */ true,
			   "trim: schedule: fstrim.timer is active, too, and trims without a pace: "
			   "systemctl disable --now fstrim.timer");
	if (config_trims_together(c->config))
		timer_check(c, "trim", &c->config->trim_schedule_place,
			    trim_timers_has(&timers, CONFIG_TRIM_TIMER));
	for (size_t i = 0; i < c->config->n_trims; i++) {
		const struct config_trim *t = &c->config->trims[i];

		if (t->schedule && config_trim_timer(unit, t->mount) >= 0)
			timer_check(c, trim_where(where, t), &t->schedule_place,
				    trim_timers_has(&timers, unit));
	}
}

static void in_force_check(struct check *c)
{
	char state_dir[PATH_MAX];
	bool known = !c->o.user || config_user_path("XDG_STATE_HOME", ".local/state", "", state_dir,
						    sizeof(state_dir)) >= 0;

	if (c->o.user && known)
		c->o.state_dir = state_dir;
	if (c->config->n_policies > 0 && known) {
		states_check(c);
		first_runs_check(c);
	}
	trim_timers_check(c);
	c->o.state_dir = NULL;
}

static void fleet_tell(const struct config_place *place, bool is_warning, const char *text,
		       void *userdata)
{
	place_tell(userdata, place, is_warning, "%s", text);
}

/* The files are none where something is wrong. */
static void show(struct check *c, char *const *files)
{
	bool says = c->o.json == JSON_OFF && !c->o.quiet;
	json_t *list = json_array();

	for (char *const *f = files; f && *f; f++) {
		json_t *v = json_path(*f);

		if (says)
			(void)printf("%s: correct\n", json_string_value(v));
		(void)json_array_append_new(list, v);
	}
	if (files && !files[0] && says)
		(void)puts("no configuration files: everything is at its default");
	json_print(json_pack("{so sO sO}", "files", list, "errors", c->errors, "warnings",
			     c->warnings),
		   c->o.json);
}

int verb_check_config(const struct options *o, struct client *client)
{
	struct check c = { .o = *o };
	int r;

	(void)client;
	if (c.o.n_paths > 1) {
		complain(c.o.paths[1], "check-config takes one FILE or DIR");
		return EXIT_USAGE;
	}
	if (c.o.user && c.o.n_paths == 0 && geteuid() == 0) {
		complain("check-config",
			 "root's policies are those of the system: name a FILE with "
			 "--user, or leave that out");
		return EXIT_USAGE;
	}
	c.errors = json_array();
	c.warnings = json_array();
	r = check_read(&c);
	for (size_t i = 0; r >= 0 && i < c.config->n_policies; i++)
		policy_check(&c, &c.config->policies[i]);
	if (r >= 0 && c.o.n_paths > 0)
		first_runs_check(&c);
	for (size_t i = 0; r >= 0 && i < c.config->n_spools; i++)
		hooks_check(&c, &c.config->spools[i].hooks, "spools", c.config->spools[i].path);
	if (r >= 0)
		trims_check(&c);
	if (r >= 0 && c.config->fleet_database)
		fleet_check(c.config, c.o.n_paths == 0 && !c.o.quiet, fleet_tell, &c);
	if (r >= 0 && c.o.n_paths == 0 && !c.o.quiet)
		in_force_check(&c);
	if (c.wrong)
		r = -EBADMSG;
	if (r >= 0 || r == -EBADMSG)
		show(&c, r < 0 ? NULL : c.config->files);
	else
		complain("check-config", "%s",
			 c.o.user && r == -ENOENT ? "there is no home directory with policies: set "
						    "HOME or XDG_CONFIG_HOME"
						  : strerror(-r));
	json_decref(c.errors);
	json_decref(c.warnings);
	config_free(c.config);
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
