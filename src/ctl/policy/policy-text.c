/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies and their plans for people. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "policies.h"
#include "policy/keep-periods.h"
#include "ctl/output/screen.h"
#include "base/escape.h"
#include "base/units.h"

/* "daily, weekly": the rules of keep that are bits of kept_by. Returns buf. */
static char *kept_by_format(char *buf, size_t len, unsigned kept_by)
{
	size_t at = 0;

	buf[0] = '\0';
	for (int rule = 0; rule < KEEP_RULES && at < len; rule++)
		if (kept_by >> rule & 1) {
			int n = snprintf(buf + at, len - at, "%s%s", at > 0 ? ", " : "",
					 keep_rule_name((enum keep_rule)rule));

			at += n < 0 ? 0 : (size_t)n;
		}
	return buf;
}

static char *age_format(char *buf, size_t len, const struct policy_preview *l,
			const struct policy_entry *e)
{
	if (e->disposition == DISPOSITION_NO_TIME || e->time_nsec > l->now_nsec)
		(void)snprintf(buf, len, "-");
	else
		(void)timespan_format(buf, len,
				      ((uint64_t)l->now_nsec - (uint64_t)e->time_nsec) / 1000);
	return buf;
}

/* Where the names begin. */
#define NAME_COLUMN 32

const char *entry_fate(const struct policy_entry *e)
{
	if (!disposition_deletes((enum disposition)e->disposition))
		return "keep";
	return e->stays ? "excess" : "delete";
}

static void entry_print(const struct policy_preview *l, const struct policy_entry *e)
{
	_cleanup_free_ char *name = escape_name(e->name), *text = NULL;
	char age[32], size[16], rules[80], reason[128];

	if (e->disposition == DISPOSITION_KEPT)
		(void)snprintf(reason, sizeof(reason), "keep: %s",
			       kept_by_format(rules, sizeof(rules), e->kept_by));
	else
		(void)snprintf(reason, sizeof(reason), "%s", disposition_words(e->disposition));
	if (asprintf(&text, "%s  (%s)", name ? name : "?", reason) < 0)
		text = NULL;
	(void)printf("%-6s  %10s  %10s  ", entry_fate(e), age_format(age, sizeof(age), l, e),
		     size_format(size, sizeof(size), e->bytes));
	screen_wrap(stdout, text ? text : "?", screen_columns(STDOUT_FILENO), NAME_COLUMN);
}

static void sum_print(const char *what, uint64_t n, uint64_t bytes)
{
	char count[COUNTED_SIZE], size[16];

	(void)printf("%s %s, %s", what, counted_format(count, sizeof(count), n, "entry", "entries"),
		     size_format(size, sizeof(size), bytes));
}

static void left_print(uint64_t n, const char *why)
{
	char count[COUNTED_SIZE];

	if (n > 0)
		(void)printf("Not looked into: %s %s\n",
			     counted_format(count, sizeof(count), n, "directory", "directories"),
			     why);
}

/* What max-delete keeps, and what becomes of that. */
static void excess_print(const struct policy_preview *l)
{
	const struct policy_plan *p = &l->plan;
	char count[COUNTED_SIZE], size[16], text[320];

	(void)snprintf(text, sizeof(text),
		       p->is_over
			       ? "In excess of max-delete: %s, %s. With %.0f%%, more than %.0f%% "
				 "would go: by keep and max-age a run would delete nothing and "
				 "say so; with --force it deletes all of it"
			       : "In excess of max-delete: %s, %s. That is for the next runs: with "
				 "%.0f%%, more than %.0f%% would go; with --force a run deletes "
				 "all of it",
		       counted_format(count, sizeof(count), p->excess.n, "entry", "entries"),
		       size_format(size, sizeof(size), p->excess.bytes), 100 * p->share,
		       100 * l->policy->rules.max_delete);
	screen_wrap(stdout, text, screen_columns(STDOUT_FILENO), 0);
}

static void totals_print(const struct policy_preview *l)
{
	const struct policy_plan *p = &l->plan;
	const struct scan *s = &l->scan;

	sum_print("Keeps", p->matched.n - p->deleted.n, p->matched.bytes - p->deleted.bytes);
	sum_print("; deletes", p->deleted.n, p->deleted.bytes);
	(void)putchar('\n');
	if (p->refused.n > 0) {
		sum_print("To be deleted, but cannot be:", p->refused.n, p->refused.bytes);
		(void)putchar('\n');
	}
	if (p->excess.n > 0)
		excess_print(l);
	left_print(s->unread, "that could not be read");
	left_print(s->locked, "that another process has locked");
	left_print(s->mounts, "with another filesystem on them");
	left_print(s->too_deep, "too deep");
	if (l->policy->rules.skip_open && !l->open_known)
		screen_wrap(stdout,
			    "Not all processes may be looked into by this user: more may be open",
			    screen_columns(STDOUT_FILENO), 0);
}

void policy_preview_print(const struct policy_preview *l)
{
	_cleanup_free_ char *path = escape_name(l->policy->rules.path);
	const struct policy_entries *e = &l->scan.entries;

	(void)printf("%s: %s\n", l->policy->name, path ? path : "?");
	if (e->n == 0)
		(void)puts("Nothing matches");
	else
		(void)printf("%-6s  %10s  %10s  %s\n", "FATE", "AGE", "FREES", "NAME");
	for (size_t i = 0; i < e->n; i++)
		entry_print(l, &e->v[l->plan.order[i]]);
	totals_print(l);
}

static char *match_format(char *const *match)
{
	char *s = NULL;
	size_t len;
	FILE *f = open_memstream(&s, &len);

	for (char *const *g = match; f && g && *g; g++) {
		_cleanup_free_ char *shown = escape_name(*g);

		(void)fprintf(f, "%s%s", g == match ? "" : " ", shown ? shown : "?");
	}
	return f && fclose(f) == 0 ? s : NULL;
}

void policies_print(const struct config *c)
{
	int name_width = 4, path_width = 4;

	for (size_t i = 0; i < c->n_policies; i++) {
		name_width = MAX(name_width, (int)strlen(c->policies[i].name));
		path_width = MAX(path_width, (int)strlen(c->policies[i].rules.path));
	}
	if (c->n_policies == 0) {
		(void)puts("no policies");
		return;
	}
	(void)printf("%-*s  %-*s  %-12s  %s\n", name_width, "NAME", path_width, "PATH", "SCHEDULE",
		     "MATCH");
	for (size_t i = 0; i < c->n_policies; i++) {
		const struct config_policy *p = &c->policies[i];
		_cleanup_free_ char *path = escape_name(p->rules.path),
				    *match = match_format(p->rules.match),
				    *schedule = p->schedule ? escape_name(p->schedule) : NULL;

		(void)printf("%-*s  %-*s  %-12s  %s%s\n", name_width, p->name, path_width,
			     path ? path : "?", schedule ? schedule : "-", match ? match : "",
			     policy_has_rules(&p->rules) ? "" : "  (no rule: deletes nothing)");
	}
}
