/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl policy list and policy plan: which policies the configuration has, and what each would
 * keep and delete now, entry by entry, and why. Reads the configuration itself, asks no daemon, and
 * changes nothing. policy run (policy-run.c) makes the same plan, and hands over what it deletes.
 *
 * With --json, an array with one object for each policy. Keys are only ever added. `list`:
 *
 *   name, paths, match, schedule  as configured; schedule may be null
 *   path                          the directory that all its paths are in, or its path
 *   rules                         has it any rule that deletes?
 *   watched ... last              see policy-state.h
 *   first_run                     of a policy that has never run, what its first run will do, as
 *                                 texts; missing if that is not known
 *
 * `plan`; entries come in the order of their series, newest first:
 *
 *   name, path, paths       as in list; the entries' names are beneath path
 *   error                   why it could not be looked at, or null; then there is nothing below
 *   entries                 [{name, series, time_usec, bytes, inodes, uid, fate, rule, keep,
 *                           refused, pinned_until_usec}]:
 *                           fate is "keep", "delete", or "excess" (to be deleted, but not by this
 *                           run: max-delete); rule is what decided; keep the rules of keep that
 *                           keep it; refused: it is to be deleted, and cannot; time_usec is null
 *                           if it has none, pinned_until_usec if no pin with a date keeps it; unit
 *                           is a number that the entries of a unit or chain have in common; oldest
 *                           has those rules of keep that keep it only as the oldest
 *   matched, kept, deleted  {entries, bytes}: bytes are what deleting frees
 *   refused, excess         likewise; both are in kept
 *   over_max_delete         more would go than one run may delete
 *   unmet                   [{limit, have, wanted}]: limits that do not hold after the run
 *   notes                   which limits are unmet and why, and what a scheduled run will do, as
 *                           texts
 *   filesystem              {size_bytes, free_bytes, inodes, free_inodes}; inodes 0: no limit
 *   not_looked_into         {unread, locked, mounts, too_deep}: directories
 *   left_out                {owner, size, unmatched, excluded}: how many names are no entries, and
 *                           for what reason
 *   timezone                of names and of the periods of keep, such as "Europe/Berlin"
 *   missing_times           ["atime", ...]: of age-by, what is not known there; then all is kept
 *   open_complete           all processes' open files could be seen
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "engine/guard/protect.h"
#include "ctl/common/run-pacing.h"
#include "policies.h"
#include "policy-state.h"
#include "policy/overlap.h"
#include "base/mounts.h"
#include "base/zone.h"
#include "base/similar.h"
#include "policy/retention.h"
#include "ctl/common/verbs.h"
#include "ctl/output/timestamps.h"

static void error_tell(const struct config_error *e, void *userdata)
{
	const struct policy_session *s = userdata;

	if (!e->is_warning || !s->o.quiet)
		config_error_print(e);
}

/* As with deletions, speed wins over the latency of foreign I/O where space is short. */
static bool is_urgent(const struct config *c, int dirfd)
{
	struct statvfs st;

	return fstatvfs(dirfd, &st) >= 0 &&
	       (uint64_t)st.f_bavail * st.f_frsize <
		       policy_space_bytes(&c->urgent_below, (uint64_t)st.f_blocks * st.f_frsize);
}

static int64_t now_nsec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

/* Fills l->scan, which was SCAN_NONE. No other thread runs while the zone changes. */
static int scan(struct policy_session *s, struct policy_preview *l)
{
	const struct policy *p = &l->policy->rules;
	_cleanup_close_ int base = scan_base(p->path);
	struct scan_by by = { .holders = &s->holders, .protect = s->protect };
	struct pacing pacing = { 0 };
	int r = zone_enter(p->timezone);

	l->where = p->path;
	if (r < 0) {
		l->problem = "cannot be planned for: the time zone is unknown; see timedatectl";
		return r == -ENOENT ? -EBADMSG : r;
	}
	if (base >= 0 && !is_urgent(s->config, base))
		by.pace = pacing_start_scan(&pacing, &s->o, base);
	r = scan_policy(&l->scan, p, base, &by, &l->where, &l->problem);
	pacing_stop(&pacing);
	zone_leave();
	return r;
}

/* Fills the plan of a scan. */
static int decide(struct policy_preview *l, struct policy_moment moment)
{
	int r = zone_enter(l->policy->rules.timezone);

	if (r >= 0)
		r = rules_decide(&l->plan, &l->policy->rules, &l->scan.entries, moment);
	zone_leave();
	return r;
}

/* Holds what `other` keeps. Where that cannot be scanned, it is not known. */
static int hold_one(struct policy_session *s, struct policy_preview *l,
		    const struct config_policy *other, struct policy_moment moment)
{
	struct policy_preview o = { .policy = other, .scan = SCAN_NONE };
	int r = scan(s, &o);

	if (r == -ENOENT)
		return 0;
	if (r >= 0 && o.scan.missing_ages) {
		o.problem = scan_missing_words(o.scan.missing_ages);
		r = -EOPNOTSUPP;
	}
	if (r < 0) {
		if (!s->is_silent)
			complain(other->name, "%s %s", o.where, o.problem);
		l->problem = "cannot be planned for: what another policy keeps of it is not known";
		policy_preview_done(&o);
		return r;
	}
	r = decide(&o, moment);
	if (r >= 0)
		r = overlap_hold(&l->scan.entries, l->policy->rules.path, &o.scan.entries,
				 other->rules.path);
	policy_preview_done(&o);
	return r;
}

/* Between two policies, keep wins. */
static int hold_others(struct policy_session *s, struct policy_preview *l,
		       struct policy_moment moment)
{
	int r = 0;

	for (size_t i = 0; i < s->config->n_policies && r >= 0; i++) {
		const struct config_policy *other = &s->config->policies[i];

		if (other != l->policy && policy_has_keep(&other->rules) &&
		    policies_meet(&other->rules, &l->policy->rules))
			r = hold_one(s, l, other, moment);
	}
	return r;
}

/* Reads what limits have deleted in this period. Another configuration has other policies of the
 * same names, whose results are in another directory. */
static struct policy_set spent_read(const struct options *o, const char *name)
{
	struct policy_result result = { 0 };

	if (o->configuration_dir && !o->state_dir)
		return (struct policy_set){ 0 };
	/* A user who may not read the result gets a plan without it. */
	(void)policy_result_read(options_state_dir(o), name, &result);
	return result_spent(&result, realtime_usec());
}

int policy_preview(struct policy_session *s, struct policy_preview *l)
{
	struct policy_moment moment;
	int64_t jump_nsec = l->clock_jump_usec * 1000;
	int r = scan(s, l);

	if (r < 0)
		return r;
	l->problem = NULL;
	l->open_known = s->open_known;
	l->now_nsec = now_nsec();
	moment = (struct policy_moment){ .now_nsec = MIN(l->now_nsec, l->now_nsec - jump_nsec),
					 .latest_nsec = MAX(l->now_nsec, l->now_nsec - jump_nsec),
					 .is_clock_unsure = jump_nsec != 0,
					 .spent = spent_read(&s->o, l->policy->name),
					 .free_bytes = l->scan.free_bytes,
					 .size_bytes = l->scan.size_bytes,
					 .free_inodes = l->scan.free_inodes,
					 .inodes = l->scan.inodes,
					 .unbounded = s->o.force };
	r = hold_others(s, l, moment);
	if (r >= 0)
		r = decide(l, moment);
	if (r < 0 && !l->problem)
		l->problem = "cannot be planned for: out of memory";
	return r;
}

static bool is_ours(void *userdata, const char *path)
{
	const struct config *c = userdata;

	char *one[2];

	for (size_t i = 0; i < c->n_policies; i++)
		for (char *const *p = policy_paths(&c->policies[i].rules, one); *p; p++)
			if (path_beneath(path, *p))
				return true;
	return false;
}

static void holders_refresh(struct policy_session *s)
{
	int r;

	holders_done(&s->holders);
	r = holders_read(&s->holders, "/proc", "/sys");
	if (r >= 0)
		r = holders_add_sockets(&s->holders, "/proc", is_ours, s->config);
	if (r < 0)
		complain("/proc", "cannot be read, so what is open is not known: %s; ignoring",
			 strerror(-r));
	s->open_known = r >= 0 && s->holders.hidden == 0 && !s->holders.processes_hidden;
}

size_t policy_recheck(struct policy_session *s, struct policy_preview *l)
{
	const struct scan_by by = { .holders = &s->holders, .protect = s->protect };
	size_t n;

	holders_refresh(s);
	n = scan_recheck(&l->scan, &l->policy->rules, &by);
	l->plan.deleted = limits_deleted(&l->scan.entries, l->plan.order);
	return n;
}

void policy_preview_done(struct policy_preview *l)
{
	policy_plan_done(&l->plan);
	scan_done(&l->scan);
}

static void plan_one(struct policy_session *s, const struct config_policy *p)
{
	struct policy_preview l = { .policy = p, .scan = SCAN_NONE };

	if (policy_preview(s, &l) < 0) {
		complain(p->name, "%s %s", l.where, l.problem);
		s->failed = true;
	}
	if (s->o.json != JSON_OFF) {
		(void)fputs(s->n_shown > 0 ? "," : "[", stdout);
		policy_preview_json(&l, s->o.json);
	} else if (!s->o.quiet && !l.problem) {
		(void)fputs(s->n_shown > 0 ? "\n" : "", stdout);
		policy_preview_print(&l);
	}
	s->n_shown++;
	policy_preview_done(&l);
}

static const struct config_policy *find(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_policies; i++)
		if (strcmp(c->policies[i].name, name) == 0)
			return &c->policies[i];
	return NULL;
}

int policy_prepare(struct policy_session *s)
{
	_cleanup_free_ char *culprit = NULL;
	int r = protect_new(&s->protect, (const char *const *)s->config->protect, &culprit);

	if (r < 0) {
		complain(culprit ? culprit : "protected paths",
			 "cannot be resolved (%s), so what is protected is not known",
			 strerror(-r));
		return EXIT_FAILED;
	}
	holders_refresh(s);
	return 0;
}

void policy_session_done(struct policy_session *s)
{
	holders_done(&s->holders);
	protect_free(s->protect);
}

/* The policies with these names, or all. */
static int plan_all(struct policy_session *s, char *const *names, size_t n)
{
	int r = policy_prepare(s);

	if (r != 0)
		return r;
	for (size_t i = 0; i < (n > 0 ? n : s->config->n_policies); i++)
		plan_one(s, n > 0 ? find(s->config, names[i]) : &s->config->policies[i]);
	if (s->o.json != JSON_OFF)
		(void)puts(s->n_shown == 0 ? "[]" : s->o.json == JSON_PRETTY ? "\n]" : "]");
	else if (s->n_shown == 0 && !s->o.quiet)
		(void)puts("no policies");
	return s->failed ? EXIT_FAILED : EXIT_DONE;
}

json_t *policy_first_notes(struct policy_session *s, const struct config_policy *p)
{
	struct policy_preview l = { .policy = p, .scan = SCAN_NONE };
	json_t *notes;

	s->is_silent = true;
	notes = policy_preview(s, &l) < 0 ? json_array() : policy_notes(&l);
	policy_preview_done(&l);
	return notes;
}

/* Adds to policies that have never run what their first run will do. Others have the result of
 * their last run. */
static void first_runs_add(struct policy_session *s, json_t *states)
{
	const struct config *c = s->config;
	bool is_prepared = false;
	json_t *state;
	size_t i;

	json_array_foreach(states, i, state) {
		if (!json_is_null(json_object_get(state, "last")) ||
		    !json_is_true(json_object_get(state, "path_exists")))
			continue;
		if (!is_prepared && policy_prepare(s) != 0)
			return;
		is_prepared = true;
		(void)json_object_set_new(state, "first_run",
					  policy_first_notes(s, &c->policies[i]));
	}
}

static int policies_list(struct policy_session *s)
{
	struct client *client = client_try(&s->o, /* socket_first= */ false);
	json_t *states = policy_states_json(&s->o, s->config, client);

	if (geteuid() == 0 || s->o.user)
		first_runs_add(s, states);
	if (s->o.json == JSON_OFF && !s->o.quiet)
		policies_print(states);
	json_print(states, s->o.json);
	client_free(client);
	return EXIT_DONE;
}

static int policy_all(struct policy_session *s, const char *what, char *const *names, size_t n)
{
	const char *dir = s->o.configuration_dir;
	int r = s->o.user ? config_load_user(&s->config, NULL, error_tell, s)
			  : config_load(&s->config, dir ? NULL : CONFIG_VENDOR_DIR,
					dir ? dir : CONFIG_DIR, error_tell, s);

	if (r < 0) {
		complain("configuration", "%s",
			 r == -EBADMSG ? "has errors, so no policy is used" : strerror(-r));
		return EXIT_FAILED;
	}
	for (size_t i = 0; i < n; i++)
		if (!find(s->config, names[i])) {
			complain(names[i][0] ? names[i] : "''",
				 "there is no such policy: see reclaimctl policy list");
			return EXIT_FAILED;
		}
	if (strcmp(what, "plan") == 0)
		return plan_all(s, names, n);
	if (strcmp(what, "run") == 0)
		return policy_run(s, find(s->config, names[0]));
	return policies_list(s);
}

/* For this user alone. Where one cannot be made, using it says why. */
static void directories_make(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	(void)mkdir(path, 0700);
}

/* Returns 0, or EXIT_USAGE after having said what is wrong. */
static int words_check(const struct options *o, const char *what)
{
	bool list = strcmp(what, "list") == 0, run = strcmp(what, "run") == 0;
	bool known = list || run || strcmp(what, "plan") == 0;
	struct similar similar = { .word = what };
	const char *wrong = NULL;

	similar_offer(&similar, "list");
	similar_offer(&similar, "plan");
	similar_offer(&similar, "run");
	if (!known && similar.near) {
		complain(what, "no such command of policy: did you mean %s?", similar.near);
		return EXIT_USAGE;
	}
	if (!known)
		wrong = "give list, plan or run";
	else if (list && o->n_paths > 1)
		wrong = "list takes no NAME";
	else if (list && (o->latency_off || o->latency_usec))
		wrong = "--latency goes only with plan and run";
	else if (run && o->n_paths != 2)
		wrong = "run takes exactly one NAME";
	else if (!run && (o->dry_run || o->force || o->clock_is_right || o->wait))
		wrong = "--dry-run, --force, --clock-is-right and --wait go only with run";
	else if (o->user && o->configuration_dir)
		wrong = "--configuration-directory is of the system, and does not go with --user";
	else if (!run && !list && o->runtime_dir)
		wrong = "--runtime-directory goes only with list and run";
	if (!wrong)
		return 0;
	complain("policy", "%s: see reclaimctl policy --help", wrong);
	return EXIT_USAGE;
}

/* Root's are those of the system: with the environment of another user, root would do what that
 * user says. Returns 0 or an exit status. */
static int user_begin(struct policy_session *s, char *state_dir, size_t len)
{
	int r;

	if (geteuid() == 0) {
		complain("policy",
			 "--user is not for root, whose policies are those of the system");
		return EXIT_USAGE;
	}
	if (s->o.state_dir)
		return 0;
	r = config_user_path("XDG_STATE_HOME", ".local/state", "", state_dir, len);
	if (r < 0) {
		complain("policy", "there is no home directory that results could be kept in: set "
				   "HOME or XDG_STATE_HOME");
		return EXIT_FAILED;
	}
	s->o.state_dir = state_dir;
	if (!s->o.dry_run && strcmp(s->o.paths[0], "run") == 0)
		directories_make(state_dir);
	return 0;
}

int verb_policy(const struct options *o, struct client *c)
{
	struct policy_session s = { .o = *o };
	const char *what = o->n_paths > 0 ? o->paths[0] : "";
	char state_dir[PATH_MAX];
	int r = words_check(o, what);

	(void)c;
	if (r == 0 && o->user)
		r = user_begin(&s, state_dir, sizeof(state_dir));
	if (r != 0)
		return r;
	r = policy_all(&s, what, s.o.paths + 1, s.o.n_paths - 1);
	policy_session_done(&s);
	config_free(s.config);
	return r;
}
