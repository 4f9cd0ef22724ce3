/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-schema.h"

#include <string.h>

#include "pacing-windows.h"
#include "policy/overlap.h"
#include "base/mounts.h"
#include "base/units.h"

#define FLEET_DATABASE_MOST 1000
#define FLEET_FILESYSTEMS_MOST 64

/* The value of a key beneath a map; NULL if either is missing. */
static const struct yaml_node *beneath(const struct yaml_node *map, const char *key)
{
	return map && map->kind == NODE_MAP ? node_get(map, key, NULL) : NULL;
}

static void check_rates(const struct config_pacing *pacing, const struct yaml_node *map,
			const struct crumb *in, struct problems *p)
{
	const struct yaml_node *least = beneath(map, "min-rate"), *most = beneath(map, "max-rate");
	char a[16], b[16];

	/* A device that says neither has what all have, and that is told once. */
	if ((!least && !most) || pacing->rate_min <= pacing->rate_max)
		return;
	problems_add(p, (most ? most : least)->place, in,
		     "found a max-rate of %s/s, expected one that is not under the min-rate of "
		     "%s/s",
		     size_format(a, sizeof(a), pacing->rate_max),
		     size_format(b, sizeof(b), pacing->rate_min));
}

/* One that says nothing would be taken for a pause. */
static void check_windows(const struct config *c, const struct yaml_node *map, struct problems *p)
{
	struct crumb in = { .key = "pacing" }, in_windows = { .up = &in, .key = "windows" };

	if (c->n_windows > PACING_WINDOWS_MOST)
		problems_add(p, c->windows[PACING_WINDOWS_MOST].place, &in,
			     "found %zu windows, expected %d at most", c->n_windows,
			     PACING_WINDOWS_MOST);
	for (size_t i = 0; i < c->n_windows; i++) {
		const struct config_window *w = &c->windows[i];
		struct crumb at = { .up = &in_windows, .key = w->span };

		if (!beneath(beneath(map, w->span), "rate"))
			problems_add(p, w->place, &at, "has no rate, expected one, or paused");
	}
}

static void check_pacing(const struct config *c, const struct yaml_node *root, struct problems *p)
{
	const struct yaml_node *pacing = beneath(root, "pacing"),
			       *devices = beneath(pacing, "devices");
	struct crumb in = { .key = "pacing" }, in_devices = { .up = &in, .key = "devices" };

	check_rates(&c->pacing, pacing, &in, p);
	for (size_t i = 0; i < c->n_devices; i++) {
		struct crumb at = { .up = &in_devices, .key = c->devices[i].name };

		check_rates(&c->devices[i].pacing, beneath(devices, c->devices[i].name), &at, p);
	}
	check_windows(c, beneath(pacing, "windows"), p);
}

/* `until` must not be less than `below`, nor of another sort, a share or what `sort` says; `map` is
 * where they are said. */
static void check_band(const struct policy_space *below, const struct policy_space *until,
		       const char *sort, const struct yaml_node *map, const struct crumb *in,
		       struct problems *p)
{
	const struct yaml_node *b = beneath(map, "below"), *u = beneath(map, "until"),
			       *n = u ? u : b;

	if (!n)
		return;
	if (below->is_share != until->is_share)
		problems_add(p, n->place, in,
			     "found a share and a %s, expected below and until to be both shares "
			     "or both %ss%s",
			     sort, sort, b && u ? "" : " (the defaults are 5% and 10%)");
	else if (below->is_share ? below->share > until->share : below->bytes > until->bytes)
		problems_add(p, n->place, in,
			     "found an until that is less than below, expected "
			     "it to be the same or more");
}

/* The outer one would take the inner one for an entry, and delete it. */
static void check_spools(const struct config *c, struct problems *p)
{
	struct crumb in = { .key = "spools" };

	for (size_t i = 0; i < c->n_spools; i++) {
		const struct config_spool *a = &c->spools[i];
		struct crumb at = { .up = &in, .key = a->path };

		if (strcmp(a->path, "/") == 0)
			problems_add(p, a->place, &at,
				     "is the root directory, expected one that is only for what "
				     "is to be deleted");
		for (size_t j = 0; j < c->n_spools; j++)
			if (i != j && path_beneath(a->path, c->spools[j].path))
				problems_add(p, a->place, &at,
					     "lies in the spool %s, expected spools outside of "
					     "each other",
					     c->spools[j].path);
		for (char **k = c->protect; *k; k++)
			if (strcmp(a->path, *k) == 0)
				problems_add(p, a->place, &at,
					     "is protected too, expected one or the other");
	}
}

/* Two mount points of one filesystem would be two for the fleet; that they are one is for
 * check-config and the daemon to find. */
static void check_fleet(const struct config *c, const struct yaml_node *root, struct problems *p)
{
	const struct yaml_node *fleet = beneath(root, "fleet");
	struct crumb in = { .key = "fleet" }, in_shared = { .up = &in, .key = "filesystems" };

	if (!fleet || fleet->n == 0)
		return;
	if (!c->fleet_database)
		problems_add(p, fleet->place, &in,
			     "has no database, expected a connection string of libpq");
	else if (strlen(c->fleet_database) > FLEET_DATABASE_MOST)
		problems_add(p, c->fleet_database_place, &in,
			     "found a database of %zu bytes, expected %d at most",
			     strlen(c->fleet_database), FLEET_DATABASE_MOST);
	else if (strstr(c->fleet_database, "password"))
		problems_warn(
			p, c->fleet_database_place, &in,
			"the database has a password, which is shown to any user who may read "
			"this file: expected passfile=, the path of a file of root's own");
	if (c->n_fleet_filesystems == 0)
		problems_add(p, fleet->place, &in,
			     "has no filesystems, expected those that the fleet shares");
	if (c->n_fleet_filesystems > FLEET_FILESYSTEMS_MOST)
		problems_add(p, c->fleet_filesystems[FLEET_FILESYSTEMS_MOST].place, &in,
			     "found %zu filesystems, expected %d at most", c->n_fleet_filesystems,
			     FLEET_FILESYSTEMS_MOST);
	for (size_t i = 0; i < c->n_fleet_filesystems; i++) {
		const struct config_shared *a = &c->fleet_filesystems[i];
		struct crumb at = { .up = &in_shared, .key = a->path };

		if (!a->name)
			problems_add(p, a->place, &at,
				     "has no name, expected what the fleet calls it");
		for (size_t j = 0; j < i; j++) {
			const struct config_shared *b = &c->fleet_filesystems[j];

			if (a->name && b->name && strcmp(a->name, b->name) == 0)
				problems_add(p, a->place, &at,
					     "found \"%s\", which %s in line %u is called, too: "
					     "expected a name for each filesystem",
					     a->name, b->path, b->place.line);
		}
	}
}

/* Policies that are sure to do nothing, or nothing by themselves. */
static void check_effect(const struct config_policy *p, bool of_user, const struct crumb *at,
			 struct problems *out)
{
	if (!p->rules.path)
		problems_add(out, p->place, at,
			     "has no path, expected the directory that it is about");
	else if (!p->rules.match || !p->rules.match[0])
		problems_warn(out, p->place, at,
			      "has no match, so it deletes nothing: \"*\" means all of the "
			      "directory");
	else if (!policy_has_rules(&p->rules))
		problems_warn(out, p->place, at,
			      "has no rule, so it deletes nothing: expected keep, max-age, "
			      "max-size, max-size-per-series, max-files, min-free or "
			      "min-free-inodes");
	else if (!p->schedule && of_user)
		problems_warn(out, p->place, at,
			      "has no schedule, so it never runs by itself, but only by reclaimctl "
			      "policy run --user %s%s",
			      p->name,
			      policy_has_marks(&p->rules)
				      ? ": only policies of the system are watched"
				      : "");
	else if (!p->schedule && !policy_has_marks(&p->rules))
		problems_warn(
			out, p->place, at,
			"has no schedule, nor min-free, min-free-inodes or max-size, which are "
			"watched, so it never runs by itself, but only by reclaimctl policy run %s",
			p->name);
	else if (p->undo_usec > 0 &&
		 (policy_has_min_free(&p->rules) || policy_has_min_inodes(&p->rules)))
		problems_warn(out, p->place, at,
			      "has %s, but what it deletes is held for undo first, and frees "
			      "nothing before: expected undo: 0 here",
			      policy_has_min_free(&p->rules) ? "min-free" : "min-free-inodes");
}

static void check_protected(const struct config *c, const struct config_policy *p,
			    const struct crumb *at, struct problems *out)
{
	char *one[2];

	for (char *const *path = policy_paths(&p->rules, one); *path; path++)
		for (char **k = c->protect; *k; k++)
			if (path_beneath(*path, *k))
				problems_add(out, p->place, at,
					     "its path %s is or lies in %s, which is protected: "
					     "expected one that is not",
					     *path, *k);
}

static bool does_something(const struct policy *p)
{
	return p->path && p->match && p->match[0] && policy_has_rules(p);
}

static void check_overlap(const struct config *c, size_t i, const struct crumb *at,
			  struct problems *out)
{
	const struct config_policy *p = &c->policies[i];

	for (size_t j = 0; j < i; j++) {
		const struct config_policy *q = &c->policies[j];

		if (does_something(&p->rules) && does_something(&q->rules) &&
		    policies_meet(&p->rules, &q->rules))
			problems_warn(
				out, p->place, at,
				"may be about the same entries as %s in line %u: what keep of "
				"either keeps is kept, else each deletes by its own rules",
				q->name, q->place.line);
	}
}

/* Reports an error if a policy has two keys that exclude each other. */
static void check_either(const char *key, const char *other, const struct yaml_node *keys,
			 const struct crumb *in, struct problems *out)
{
	struct crumb at = { .up = in, .key = key };
	const struct yaml_node *n = beneath(keys, key);

	if (n && beneath(keys, other))
		problems_add(out, n->place, &at, "there is a %s, too, expected one or the other",
			     other);
}

static void check_paths(const struct config_policy *p, const struct crumb *in, struct problems *out)
{
	struct crumb at = { .up = in, .key = "paths" };

	for (char **a = p->rules.paths; a && *a; a++) {
		if (strcmp(*a, "/") == 0)
			problems_add(out, p->path_place, &at,
				     "found the root directory, expected others");
		for (char **b = p->rules.paths; *b; b++)
			if (a != b && path_beneath(*a, *b))
				problems_add(out, p->path_place, &at,
					     "%s lies in %s, expected directories outside of each "
					     "other",
					     *a, *b);
	}
}

/* `map` is where they are said. */
static void check_sizes(const struct policy *p, const struct yaml_node *map, const struct crumb *in,
			struct problems *out)
{
	if (!map || map->kind != NODE_MAP)
		return;
	if (p->size_least_bytes == 0 && p->size_below_bytes == 0)
		problems_add(out, map->place, in, "has neither min nor below, expected one");
	else if (p->size_below_bytes > 0 && p->size_least_bytes >= p->size_below_bytes)
		problems_add(out, map->place, in,
			     "found a min that is not less than below, expected it to be: no entry "
			     "is of that size");
}

/* A mark of free space, whose key is `name`. */
static void check_mark(const struct policy_space *below, const struct policy_space *until,
		       const char *sort, const char *name, const struct yaml_node *keys,
		       const struct crumb *in, struct problems *p)
{
	const struct yaml_node *n = beneath(keys, name);
	struct crumb at = { .up = in, .key = name };

	if (n && n->kind == NODE_MAP && !node_get(n, "below", NULL))
		problems_add(p, n->place, &at, "has no below, expected one");
	else
		check_band(below, until, sort, n, &at, p);
}

static void check_policies(const struct config *c, const struct yaml_node *root, bool of_user,
			   struct problems *p)
{
	const struct yaml_node *map = beneath(root, "policies");
	struct crumb in = { .key = "policies" };

	for (size_t i = 0; i < c->n_policies; i++) {
		const struct config_policy *policy = &c->policies[i];
		struct crumb at = { .up = &in, .key = policy->name };
		struct crumb at_size = { .up = &at, .key = "size" };
		const struct yaml_node *keys = beneath(map, policy->name);
		const struct policy *rules = &policy->rules;

		check_effect(policy, of_user, &at, p);
		check_protected(c, policy, &at, p);
		check_overlap(c, i, &at, p);
		check_either("paths", "path", keys, &at, p);
		check_either("age-by", "time", keys, &at, p);
		check_paths(policy, &at, p);
		check_sizes(rules, beneath(keys, "size"), &at_size, p);
		check_mark(&rules->min_free_below, &rules->min_free_until, "size", "min-free", keys,
			   &at, p);
		check_mark(&rules->min_inodes_below, &rules->min_inodes_until, "number",
			   "min-free-inodes", keys, &at, p);
	}
}

void rules_check(const struct config *c, const struct yaml_node *root, bool of_user,
		 struct problems *p)
{
	struct crumb urgent = { .key = "urgent" };

	check_pacing(c, root, p);
	check_band(&c->urgent_below, &c->urgent_until, "size", beneath(root, "urgent"), &urgent, p);
	check_spools(c, p);
	check_fleet(c, root, p);
	check_policies(c, root, of_user, p);
}
