/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl policy list and policy plan: which policies the configuration has, and what each would
 * keep and delete now, entry by entry, and why. Reads the configuration itself, asks no daemon, and
 * changes nothing.
 *
 * With --json, an array with one object for each policy. Keys are only ever added. `list`:
 *
 *   name, path, match, schedule   as configured; schedule may be null
 *   rules                         has it any rule that deletes?
 *
 * `plan`; entries come in the order of their series, newest first:
 *
 *   name, path              as configured
 *   error                   why it could not be looked at, or null; then there is nothing below
 *   entries                 [{name, series, time_usec, bytes, uid, fate, rule, keep}]: fate is
 *                           "keep" or "delete"; rule is what decided; keep the rules of keep that
 *                           keep it; time_usec is null if it has none
 *   matched, kept, deleted  {entries, bytes}: bytes are what deleting frees
 *   over_max_delete         more would go than one run may delete
 *   filesystem              {size_bytes, free_bytes}
 *   not_looked_into         {unread, locked, mounts, too_deep}: directories
 *   open_complete           all processes' open files could be seen
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check-config.h"
#include "engine/protect.h"
#include "holders.h"
#include "policy.h"
#include "policy/periods.h"
#include "verbs.h"

struct session {
	struct options o;
	struct config *config;
	struct protect *protect;
	struct holders holders;
	bool open_known, failed;
	size_t n_shown;
};

static void error_tell(const struct config_error *e, void *userdata)
{
	const struct session *s = userdata;

	if (!e->is_warning || !s->o.quiet)
		config_error_print(e);
}

static bool is_open(void *userdata, uint64_t dev, uint64_t ino)
{
	const struct session *s = userdata;
	size_t n;

	return holders_find(&s->holders, dev, ino, &n) != NULL;
}

static bool is_near(void *userdata, int dirfd)
{
	const struct session *s = userdata;

	return protect_near(s->protect, dirfd);
}

static const char *why_name(void *userdata, int dirfd, const char *name, const struct identity *id)
{
	const struct session *s = userdata;

	return protect_check(s->protect, dirfd, name, id);
}

static const char *why_content(void *userdata, int dirfd)
{
	const struct session *s = userdata;

	return protect_check_content(s->protect, dirfd);
}

static int64_t now_nsec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

static int look(struct session *s, struct policy_look *l)
{
	const struct scan_watch watch = { .is_open = is_open,
					  .is_near = is_near,
					  .why_name = why_name,
					  .why_content = why_content,
					  .userdata = s };
	struct policy_moment moment;
	int r = scan_policy(&l->scan, &l->policy->rules, &watch, &l->problem);

	if (r < 0)
		return r;
	l->problem = NULL;
	l->open_known = s->open_known;
	l->now_nsec = now_nsec();
	moment = (struct policy_moment){ .now_nsec = l->now_nsec,
					 .free_bytes = l->scan.free_bytes,
					 .size_bytes = l->scan.size_bytes };
	r = rules_decide(&l->plan, &l->policy->rules, &l->scan.entries, moment);
	if (r < 0)
		l->problem = "cannot be planned for: out of memory";
	return r;
}

static void plan_one(struct session *s, const struct config_policy *p)
{
	struct policy_look l = { .policy = p };

	if (look(s, &l) < 0) {
		complain(p->name, "%s %s", p->rules.path, l.problem);
		s->failed = true;
	}
	if (s->o.json != JSON_OFF) {
		(void)fputs(s->n_shown > 0 ? "," : "[", stdout);
		policy_look_json(&l, s->o.json);
	} else if (!s->o.quiet && !l.problem) {
		(void)fputs(s->n_shown > 0 ? "\n" : "", stdout);
		policy_look_print(&l);
	}
	s->n_shown++;
	policy_plan_done(&l.plan);
	scan_done(&l.scan);
}

static const struct config_policy *find(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_policies; i++)
		if (strcmp(c->policies[i].name, name) == 0)
			return &c->policies[i];
	return NULL;
}

static int names_check(const struct session *s, char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!find(s->config, names[i])) {
			complain(names[i][0] ? names[i] : "''",
				 "there is no such policy: see reclaimctl policy list");
			return EXIT_FAILED;
		}
	return 0;
}

static int watch_begin(struct session *s)
{
	_cleanup_free_ char *culprit = NULL;
	int r = protect_new(&s->protect, (const char *const *)s->config->protect, &culprit);

	if (r < 0) {
		complain(culprit ? culprit : "protected paths",
			 "cannot be resolved (%s), so what is protected is not known",
			 strerror(-r));
		return EXIT_FAILED;
	}
	r = holders_read(&s->holders, "/proc", "/sys");
	if (r < 0)
		complain("/proc", "cannot be read, so what is open is not known: %s; ignoring",
			 strerror(-r));
	s->open_known = r >= 0 && s->holders.hidden == 0 && !s->holders.processes_hidden;
	return 0;
}

static int plan_all(struct session *s, char *const *names, size_t n)
{
	int r = names_check(s, names, n);

	if (r == 0)
		r = watch_begin(s);
	if (r != 0)
		return r;
	for (size_t i = 0; i < n; i++)
		plan_one(s, find(s->config, names[i]));
	for (size_t i = 0; n == 0 && i < s->config->n_policies; i++)
		plan_one(s, &s->config->policies[i]);
	if (s->o.json != JSON_OFF)
		(void)puts(s->n_shown > 0 ? "]" : "[]");
	else if (s->n_shown == 0 && !s->o.quiet)
		(void)puts("no policies");
	return s->failed ? EXIT_FAILED : EXIT_DONE;
}

static int list_all(struct session *s)
{
	if (s->o.json != JSON_OFF)
		json_print(policies_json(s->config), s->o.json);
	else if (!s->o.quiet)
		policies_print(s->config);
	return EXIT_DONE;
}

static int policy_all(struct session *s, const char *what, char *const *names, size_t n)
{
	const char *dir = s->o.configuration_dir;
	int r = config_load(&s->config, dir ? NULL : CONFIG_VENDOR_DIR, dir ? dir : CONFIG_DIR,
			    error_tell, s);

	if (r < 0) {
		complain("configuration", "%s",
			 r == -EBADMSG ? "has errors, so no policy is used" : strerror(-r));
		return EXIT_FAILED;
	}
	if (s->o.json != JSON_OFF)
		json_init();
	return strcmp(what, "list") == 0 ? list_all(s) : plan_all(s, names, n);
}

int verb_policy(int argc, char **argv)
{
	struct session s = { 0 };
	int r = options_parse(&s.o, VERB_POLICY, argc, argv);
	const char *what = r == 0 && s.o.n_paths > 0 ? s.o.paths[0] : "";
	bool list = strcmp(what, "list") == 0;

	if (r != 0)
		return r;
	if (!list && strcmp(what, "plan") != 0) {
		complain("policy", "give list or plan: see reclaimctl --help");
		return EXIT_USAGE;
	}
	if (list && s.o.n_paths > 1) {
		complain(s.o.paths[1], "policy list takes no NAME");
		return EXIT_USAGE;
	}
	r = policy_all(&s, what, s.o.paths + 1, s.o.n_paths - 1);
	holders_done(&s.holders);
	protect_free(s.protect);
	config_free(s.config);
	return r;
}
