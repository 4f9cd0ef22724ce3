/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies and their plans for programs; the keys are described in policies.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies.h"
#include "policy/keep-periods.h"

static json_t *text(const char *s)
{
	return s ? json_path(s) : json_null();
}

static json_t *entry_json(const struct policy_entry *e)
{
	json_t *keep = json_array();

	for (int rule = 0; rule < KEEP_RULES; rule++)
		if (e->kept_by >> rule & 1)
			(void)json_array_append_new(
				keep, json_string(keep_rule_name((enum keep_rule)rule)));
	return json_pack("{so so so sI sI ss ss so}", "name", text(e->name), "series",
			 text(e->series), "time_usec",
			 e->disposition == DISPOSITION_NO_TIME ? json_null()
							       : json_integer(e->time_nsec / 1000),
			 "bytes", (json_int_t)e->bytes, "uid", (json_int_t)e->uid, "fate",
			 disposition_deletes(e->disposition) ? "delete" : "keep", "rule",
			 disposition_name(e->disposition), "keep", keep);
}

static json_t *totals_json(const struct policy_preview *l)
{
	const struct policy_sum *matched = &l->plan.matched, *deleted = &l->plan.deleted;
	const struct scan *s = &l->scan;

	return json_pack("{s{sI sI} s{sI sI} s{sI sI} sb s{sI sI} s{sI sI sI sI} sb}", "matched",
			 "entries", (json_int_t)matched->n, "bytes", (json_int_t)matched->bytes,
			 "kept", "entries", (json_int_t)(matched->n - deleted->n), "bytes",
			 (json_int_t)(matched->bytes - deleted->bytes), "deleted", "entries",
			 (json_int_t)deleted->n, "bytes", (json_int_t)deleted->bytes,
			 "over_max_delete", l->plan.over_max_delete, "filesystem", "size_bytes",
			 (json_int_t)s->size_bytes, "free_bytes", (json_int_t)s->free_bytes,
			 "not_looked_into", "unread", (json_int_t)s->unread, "locked",
			 (json_int_t)s->locked, "mounts", (json_int_t)s->mounts, "too_deep",
			 (json_int_t)s->too_deep, "open_complete", l->open_known);
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

void policy_preview_json(const struct policy_preview *l, enum json_mode mode)
{
	json_t *head = json_pack("{so so so}", "name", text(l->policy->name), "path",
				 text(l->policy->rules.path), "error", text(l->problem));

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
		json_t *match = json_array();

		for (char **g = p->rules.match; g && *g; g++)
			(void)json_array_append_new(match, text(*g));
		(void)json_array_append_new(list,
					    json_pack("{so so so sb so}", "name", text(p->name),
						      "path", text(p->rules.path), "match", match,
						      "rules", policy_has_rules(&p->rules),
						      "schedule", text(p->schedule)));
	}
	return list;
}
