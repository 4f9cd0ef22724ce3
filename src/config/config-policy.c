/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-policy.h"

#include <stdlib.h>
#include <string.h>

#include "config-rules.h"
#include "policy/overlap.h"

#define NAME_MOST 64
/* Nobody has more of a kind, and what is more is a slip. */
#define PERIODS_MOST 1000000
#define AGE_MOST (36500 * DAY)
#define AT(member) offsetof(struct config_policy, rules.member)

#define PERIODS(name_, rule)                                                                       \
	{                                                                                          \
		.name = (name_), .type = VALUE_COUNT, .offset = AT(keep.periods[rule]),            \
		.range = { 0, PERIODS_MOST }, .expected = "a number from 0 to 1000000"             \
	}

static const struct key keep_keys[] = {
	PERIODS("last", KEEP_LAST),
	PERIODS("hourly", KEEP_HOURLY),
	PERIODS("daily", KEEP_DAILY),
	PERIODS("weekly", KEEP_WEEKLY),
	PERIODS("monthly", KEEP_MONTHLY),
	PERIODS("yearly", KEEP_YEARLY),
	{ .name = "within",
	  .type = VALUE_AGE,
	  .offset = AT(keep.within_usec),
	  .range = { 0, AGE_MOST },
	  .expected = "a time with a unit, up to 36500d, such as 14d" },
	{ 0 },
};

static const struct key min_free_keys[] = {
	{ .name = "below",
	  .type = VALUE_FLOOR,
	  .offset = AT(min_free_below),
	  .expected = "a share up to 100%, or a size with a unit such as 20G" },
	{ .name = "until",
	  .type = VALUE_FLOOR,
	  .offset = AT(min_free_until),
	  .expected = "a share up to 100%, or a size with a unit such as 40G" },
	{ 0 },
};

static const struct key policy_keys[] = {
	{ .name = "path",
	  .type = VALUE_BASE,
	  .offset = AT(path),
	  .place = offsetof(struct config_policy, path_place),
	  .expected = "an absolute path without . and .., and not the root directory" },
	{ .name = "match", .kind = KEY_GLOBS, .offset = AT(match) },
	{ .name = "exclude", .kind = KEY_GLOBS, .offset = AT(exclude) },
	{ .name = "kind",
	  .type = VALUE_KIND,
	  .offset = AT(kind),
	  .preset = "file",
	  .expected = "file or tree" },
	{ .name = "group-by",
	  .type = VALUE_REGEX,
	  .offset = AT(group_by),
	  .expected = "an extended regular expression, regex(7), with one to nine groups in "
		      "parentheses, such as ^([a-z]+)-" },
	{ .name = "time",
	  .type = VALUE_CLOCK,
	  .offset = AT(time),
	  .preset = "mtime",
	  .expected = "mtime, birth, or name: and a format of strptime(3) that has a year and a "
		      "day, such as name:%Y-%m-%d" },
	{ .name = "order",
	  .type = VALUE_ORDER,
	  .offset = AT(order),
	  .preset = "oldest",
	  .expected = "oldest or largest" },
	{ .name = "keep",
	  .kind = KEY_SECTION,
	  .keys = keep_keys,
	  .expected = "a map with last, hourly, daily, weekly, monthly, yearly or within" },
	{ .name = "max-age",
	  .type = VALUE_AGE,
	  .offset = AT(max_age_usec),
	  .range = { 1, AGE_MOST },
	  .expected = "a time with a unit, up to 36500d, such as 90d" },
	{ .name = "max-size",
	  .type = VALUE_SIZE,
	  .offset = AT(max_size_bytes),
	  .range = { 1, UINT64_MAX },
	  .expected = "a size with a unit, such as 500G" },
	{ .name = "max-files",
	  .type = VALUE_COUNT,
	  .offset = AT(max_files),
	  .range = { 1, UINT64_MAX },
	  .expected = "a number from 1" },
	{ .name = "min-free",
	  .kind = KEY_BAND,
	  .type = VALUE_FLOOR,
	  .offset = AT(min_free_below),
	  .keys = min_free_keys,
	  .expected = "a share such as 10%, a size with a unit such as 20G, or a map with below "
		      "and until" },
	{ .name = "min-age",
	  .type = VALUE_AGE,
	  .offset = AT(min_age_usec),
	  .range = { 0, AGE_MOST },
	  .expected = "a time with a unit, up to 36500d, such as 1h" },
	{ .name = "min-count",
	  .type = VALUE_COUNT,
	  .offset = AT(min_count),
	  .expected = "a number" },
	{ .name = "max-delete",
	  .type = VALUE_SHARE,
	  .offset = AT(max_delete),
	  .preset = "20%",
	  .expected = "a share from 0% to 100%" },
	{ .name = "skip-open",
	  .type = VALUE_SWITCH,
	  .offset = AT(skip_open),
	  .preset = "true",
	  .expected = "true or false" },
	{ .name = "undo",
	  .type = VALUE_TIME,
	  .offset = offsetof(struct config_policy, undo_usec),
	  .range = { 0, 365 * DAY },
	  .expected = "a time from 0 to 365d such as 1h" },
	{ .name = "schedule",
	  .type = VALUE_LINE,
	  .offset = offsetof(struct config_policy, schedule),
	  .place = offsetof(struct config_policy, schedule_place),
	  .expected = "when, as OnCalendar= of systemd.timer(5) has it, such as daily" },
	{ 0 },
};

static const char *name_tidy(char *name)
{
	size_t len = strlen(name);

	if (len > 0 && len <= NAME_MOST &&
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
		    len &&
	    name[0] != '-')
		return NULL;
	return "a name of at most 64 letters, digits, - and _";
}

static void policy_begin(void *element, const struct config *c)
{
	((struct config_policy *)element)->undo_usec = c->undo_usec;
}

const struct named config_policies = {
	.array = offsetof(struct config, policies),
	.count = offsetof(struct config, n_policies),
	.size = sizeof(struct config_policy),
	.place = offsetof(struct config_policy, place),
	.tidy = name_tidy,
	.begin = policy_begin,
	.keys = policy_keys,
};

static void strings_free(char **v)
{
	for (char **s = v; s && *s; s++)
		free(*s);
	free(v);
}

void config_policy_done(struct config_policy *p)
{
	free(p->name);
	free(p->schedule);
	free(p->rules.path);
	free(p->rules.group_by);
	free(p->rules.time.format);
	strings_free(p->rules.match);
	strings_free(p->rules.exclude);
}

/* Policies that are sure to do nothing, or nothing by themselves. */
static void check_effect(const struct config_policy *p, const struct crumb *at,
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
			      "max-size, max-files or min-free");
	else if (!p->schedule && !policy_has_marks(&p->rules))
		problems_warn(out, p->place, at,
			      "has no schedule, nor min-free or max-size, which are watched, so it "
			      "never runs by itself, but only by reclaimctl policy run %s",
			      p->name);
	else if (p->undo_usec > 0 && policy_has_min_free(&p->rules))
		problems_warn(out, p->place, at,
			      "has min-free, but what it deletes is held for undo first, and "
			      "frees no space before: expected undo: 0 here");
}

static void check_protected(const struct config *c, const struct config_policy *p,
			    const struct crumb *at, struct problems *out)
{
	for (char **k = c->protect; p->rules.path && *k; k++)
		if (path_lies_in(p->rules.path, *k))
			problems_add(out, p->place, at,
				     "its path %s is or lies in %s, which is protected: expected "
				     "one that is not",
				     p->rules.path, *k);
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

void policies_check(const struct config *c, const struct node *root, struct problems *p)
{
	const struct node *map = c->n_policies > 0 ? node_get(root, "policies", NULL) : NULL;
	struct crumb in = { .key = "policies" };

	for (size_t i = 0; i < c->n_policies; i++) {
		const struct config_policy *policy = &c->policies[i];
		struct crumb at = { .up = &in, .key = policy->name };
		struct crumb at_free = { .up = &at, .key = "min-free" };
		const struct node *keys = node_get(map, policy->name, NULL);
		const struct node *min_free = node_get(keys, "min-free", NULL);

		check_effect(policy, &at, p);
		check_protected(c, policy, &at, p);
		check_overlap(c, i, &at, p);
		if (min_free && min_free->kind == NODE_MAP && !node_get(min_free, "below", NULL))
			problems_add(p, min_free->place, &at_free, "has no below, expected one");
		else
			rules_check_band(&policy->rules.min_free_below,
					 &policy->rules.min_free_until, min_free, &at_free, p);
	}
}
