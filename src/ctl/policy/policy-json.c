/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies and their plans for programs; the keys are described in policies.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies.h"
#include "policy/periods.h"

static void put(json_t *o, const char *key, json_t *v)
{
	(void)json_object_set_new(o, key, v);
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *text(const char *s)
{
	return s ? json_path(s) : json_null();
}

static json_t *sum_json(uint64_t n, uint64_t bytes)
{
	json_t *o = json_object();

	put(o, "entries", number(n));
	put(o, "bytes", number(bytes));
	return o;
}

static json_t *entry_json(const struct policy_entry *e)
{
	json_t *o = json_object(), *keep = json_array();

	for (int rule = 0; rule < KEEP_RULES; rule++)
		if (e->kept_by >> rule & 1)
			(void)json_array_append_new(
				keep, json_string(keep_rule_name((enum keep_rule)rule)));
	put(o, "name", text(e->name));
	put(o, "series", text(e->series));
	put(o, "time_usec",
	    e->fate == FATE_NO_TIME ? json_null() : json_integer(e->time_nsec / 1000));
	put(o, "bytes", number(e->bytes));
	put(o, "uid", number(e->uid));
	put(o, "fate", json_string(fate_deletes(e->fate) ? "delete" : "keep"));
	put(o, "rule", json_string(fate_name(e->fate)));
	put(o, "keep", keep);
	return o;
}

static json_t *totals_json(const struct policy_look *l)
{
	const struct policy_plan *p = &l->plan;
	const struct scan *s = &l->scan;
	json_t *o = json_object(), *filesystem = json_object(), *left = json_object();

	put(o, "matched", sum_json(p->matched.n, p->matched.bytes));
	put(o, "kept", sum_json(p->matched.n - p->deleted.n, p->matched.bytes - p->deleted.bytes));
	put(o, "deleted", sum_json(p->deleted.n, p->deleted.bytes));
	put(o, "over_max_delete", json_boolean(p->over_max_delete));
	put(filesystem, "size_bytes", number(s->size_bytes));
	put(filesystem, "free_bytes", number(s->free_bytes));
	put(o, "filesystem", filesystem);
	put(left, "unread", number(s->unread));
	put(left, "locked", number(s->locked));
	put(left, "mounts", number(s->mounts));
	put(left, "too_deep", number(s->too_deep));
	put(o, "not_looked_into", left);
	put(o, "open_complete", json_boolean(l->open_known));
	return o;
}

/* Prints what is between the braces of an object, and frees it. */
static void members_print(json_t *o)
{
	char *s = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);

	if (s) {
		s[strlen(s) - 1] = '\0';
		(void)fputs(s + 1, stdout);
	}
	free(s);
	json_decref(o);
}

void policy_look_json(const struct policy_look *l, enum json_mode mode)
{
	json_t *head = json_object();

	put(head, "name", text(l->policy->name));
	put(head, "path", text(l->policy->rules.path));
	put(head, "error", text(l->problem));
	(void)putchar('{');
	members_print(head);
	if (!l->problem) {
		(void)fputs(",\"entries\":[", stdout);
		for (size_t i = 0; i < l->scan.entries.n; i++) {
			json_t *e = entry_json(&l->scan.entries.v[l->plan.order[i]]);

			(void)fputs(i > 0 ? "," : "", stdout);
			(void)fputs(mode == JSON_PRETTY ? "\n" : "", stdout);
			(void)json_dumpf(e, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
			json_decref(e);
		}
		(void)fputs("],", stdout);
		members_print(totals_json(l));
	}
	(void)putchar('}');
}

json_t *policies_json(const struct config *c)
{
	json_t *list = json_array();

	for (size_t i = 0; i < c->n_policies; i++) {
		const struct config_policy *p = &c->policies[i];
		json_t *o = json_object(), *match = json_array();

		for (char **g = p->rules.match; g && *g; g++)
			(void)json_array_append_new(match, text(*g));
		put(o, "name", text(p->name));
		put(o, "path", text(p->rules.path));
		put(o, "match", match);
		put(o, "rules", json_boolean(policy_has_rules(&p->rules)));
		put(o, "schedule", text(p->schedule));
		(void)json_array_append_new(list, o);
	}
	return list;
}
