/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies and their plans for programs; the keys are described in policies.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/zone.h"
#include "policies.h"
#include "policy-state.h"
#include "policy/retention.h"

static json_t *text(const char *s)
{
	return s ? json_path(s) : json_null();
}

static json_t *entry_json(const struct policy_entry *e)
{
	json_t *keep = json_array(), *oldest = json_array();

	for (int rule = 0; rule < KEEP_RULES; rule++) {
		const char *name = keep_rule_name((enum keep_rule)rule);

		if (e->kept_by >> rule & 1)
			(void)json_array_append_new(keep, json_string(name));
		if (e->kept_as_oldest >> rule & 1)
			(void)json_array_append_new(oldest, json_string(name));
	}
	return json_pack(
		"{so so so sI sI sI ss ss so so sI sb so}", "name", text(e->name), "series",
		text(e->series), "time_usec",
		disposition_is_timeless((enum disposition)e->disposition)
			? json_null()
			: json_integer(e->time_nsec / 1000),
		"bytes", (json_int_t)e->bytes, "inodes", (json_int_t)e->inodes, "uid",
		(json_int_t)e->uid, "fate", entry_fate(e), "rule", disposition_name(e->disposition),
		"keep", keep, "oldest", oldest, "unit", (json_int_t)e->unit, "refused",
		(int)(e->stays && disposition_refuses(e->disposition)), "pinned_until_usec",
		e->pinned_until_sec ? json_integer(e->pinned_until_sec * 1000000) : json_null());
}

static json_t *sum(uint64_t n, uint64_t bytes)
{
	return json_pack("{sI sI}", "entries", (json_int_t)n, "bytes", (json_int_t)bytes);
}

static json_t *missing_json(unsigned ages)
{
	json_t *v = json_array();

	if (ages & AGE_ATIME)
		(void)json_array_append_new(v, json_string("atime"));
	if (ages & AGE_BIRTH)
		(void)json_array_append_new(v, json_string("birth"));
	return v;
}

static json_t *unmet_json(const struct policy_plan *p)
{
	json_t *v = json_array();

	for (enum limit limit = 0; limit < LIMITS; limit++)
		if (p->shortages[limit].is_unmet)
			(void)json_array_append_new(
				v, json_pack("{ss sI sI}", "limit", limit_name(limit), "have",
					     (json_int_t)p->shortages[limit].have, "wanted",
					     (json_int_t)p->shortages[limit].wanted));
	return v;
}

static json_t *totals_json(const struct policy_preview *l)
{
	const struct policy_sum *matched = &l->plan.matched, *deleted = &l->plan.deleted;
	const struct policy_sum *refused = &l->plan.refused, *excess = &l->plan.excess;
	const struct scan *s = &l->scan;
	char zone[ZONE_NAME_SIZE];

	return json_pack(
		"{so so so so so sb so so s{sI sI sI sI} s{sI sI sI sI} s{sI sI sI sI} ss so sb}",
		"matched", sum(matched->n, matched->bytes), "kept",
		sum(matched->n - deleted->n, matched->bytes - deleted->bytes), "deleted",
		sum(deleted->n, deleted->bytes), "refused", sum(refused->n, refused->bytes),
		"excess", sum(excess->n, excess->bytes), "over_max_delete", (int)(excess->n > 0),
		"unmet", unmet_json(&l->plan), "notes", policy_notes(l), "filesystem", "size_bytes",
		(json_int_t)s->size_bytes, "free_bytes", (json_int_t)s->free_bytes, "inodes",
		(json_int_t)s->inodes, "free_inodes", (json_int_t)s->free_inodes, "not_looked_into",
		"unread", (json_int_t)s->unread, "locked", (json_int_t)s->locked, "mounts",
		(json_int_t)s->mounts, "too_deep", (json_int_t)s->too_deep, "left_out", "owner",
		(json_int_t)s->other_owner, "size", (json_int_t)s->other_size, "unmatched",
		(json_int_t)s->unmatched, "excluded", (json_int_t)s->excluded, "timezone",
		zone_name(l->policy->rules.timezone, zone, sizeof(zone)), "missing_times",
		missing_json(s->missing_ages), "open_complete", (int)l->open_known);
}

/* Each level of a document is two columns further in. */
static void line_begin(enum json_mode mode, int level)
{
	if (mode == JSON_PRETTY)
		(void)printf("\n%*s", 2 * level, "");
}

/* Prints and frees a value at a level; of an object only the members, where something is to go
 * between them. */
static void value_print(json_t *v, enum json_mode mode, int level, bool members)
{
	size_t flags = JSON_ENSURE_ASCII | (mode == JSON_PRETTY ? JSON_INDENT(2) : JSON_COMPACT) |
		       (members ? JSON_EMBED : 0);
	_cleanup_free_ char *text = json_dumps(v, flags);

	/* A string has no newline of its own: it is escaped. Without braces there is one at the
	 * end. */
	for (char *line = text, *end; line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		(void)fputs(line, stdout);
		if (end && *end)
			line_begin(mode, level);
	}
	json_decref(v);
}

void policy_preview_json(const struct policy_preview *l, enum json_mode mode)
{
	const struct policy *p = &l->policy->rules;
	json_t *head =
		json_pack("{so so so so}", "name", text(l->policy->name), "path", text(p->path),
			  "paths", policy_paths_json(p), "error", text(l->problem));

	line_begin(mode, 1);
	(void)putchar('{');
	value_print(head, mode, 1, /* members= */ true);
	if (!l->problem) {
		(void)putchar(',');
		line_begin(mode, 2);
		(void)fputs(mode == JSON_PRETTY ? "\"entries\": [" : "\"entries\":[", stdout);
		for (size_t i = 0; i < l->scan.entries.n; i++) {
			(void)fputs(i > 0 ? "," : "", stdout);
			line_begin(mode, 3);
			value_print(entry_json(&l->scan.entries.v[l->plan.order[i]]), mode, 3,
				    /* members= */ false);
		}
		if (l->scan.entries.n > 0)
			line_begin(mode, 2);
		(void)fputs("],", stdout);
		value_print(totals_json(l), mode, 1, /* members= */ true);
	}
	line_begin(mode, 1);
	(void)putchar('}');
}
