/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies and their plans for people. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "policies.h"
#include "policy-state.h"
#include "policy/retention.h"
#include "ctl/output/screen.h"
#include "base/zone.h"
#include "base/units.h"

/* Formats the rules of keep that keep an entry: "daily, weekly (oldest)". Returns buf. */
static char *kept_by_format(char *buf, size_t len, const struct policy_entry *e)
{
	size_t at = 0;

	buf[0] = '\0';
	for (int rule = 0; rule < KEEP_RULES && at < len; rule++)
		if (e->kept_by >> rule & 1) {
			int n = snprintf(buf + at, len - at, "%s%s%s", at > 0 ? ", " : "",
					 keep_rule_name((enum keep_rule)rule),
					 e->kept_as_oldest >> rule & 1 ? " (oldest)" : "");

			at += n < 0 ? 0 : (size_t)n;
		}
	return buf;
}

static char *age_format(char *buf, size_t len, const struct policy_preview *l,
			const struct policy_entry *e)
{
	if (disposition_is_timeless((enum disposition)e->disposition) || e->time_nsec > l->now_nsec)
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
	_cleanup_free_ char *name = screen_name(e->name), *text = NULL;
	char age[32], size[16], rules[128], reason[160];
	time_t until = (time_t)e->pinned_until_sec;
	struct tm tm;

	if (e->disposition == DISPOSITION_KEPT)
		(void)snprintf(reason, sizeof(reason), "keep: %s",
			       kept_by_format(rules, sizeof(rules), e));
	else if (e->disposition == DISPOSITION_PINNED && gmtime_r(&until, &tm))
		(void)strftime(reason, sizeof(reason),
			       until ? "pinned until %Y-%m-%d %H:%M:%S UTC" : "pinned", &tm);
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

/* What only seems to be missing in the list. */
static void left_out_print(const struct scan *s)
{
	char owner[COUNTED_SIZE], size[COUNTED_SIZE], names[COUNTED_SIZE];

	if (s->unmatched > 0)
		(void)printf("No pattern matches: %s\n",
			     counted_format(names, sizeof(names), s->unmatched, "name", "names"));
	if (s->excluded > 0)
		(void)printf("Excluded: %s\n",
			     counted_format(names, sizeof(names), s->excluded, "name", "names"));
	if (s->other_owner > 0 || s->other_size > 0)
		(void)printf(
			"Left out: %s by owner, %s by size\n",
			counted_format(owner, sizeof(owner), s->other_owner, "entry", "entries"),
			counted_format(size, sizeof(size), s->other_size, "entry", "entries"));
}

const char *policy_marks_words(const struct policy_preview *l)
{
	const struct policy *p = &l->policy->rules;

	if (policy_has_min_free(p) && l->scan.size_bytes == 0)
		return "is on a filesystem that has no size: min-free does nothing there";
	if (policy_has_min_inodes(p) && l->scan.inodes == 0)
		return "is on a filesystem without a limit of inodes: min-free-inodes does nothing "
		       "there";
	return NULL;
}

/* What all of it stays for. */
static void missing_print(const struct policy_preview *l, const char *path)
{
	char text[PATH_MAX + 256];

	if (!l->scan.missing_ages)
		return;
	(void)snprintf(text, sizeof(text), "No entry has the times of age-by, so all stay: %s %s",
		       path, scan_missing_words(l->scan.missing_ages));
	screen_wrap(stdout, text, screen_columns(STDOUT_FILENO), 0);
}

/* "38 of 41 entries (93 %), more than max-delete (20 %)" */
static void excess_format(char *buf, size_t len, const struct policy_preview *l)
{
	const struct policy_plan *p = &l->plan;

	(void)snprintf(buf, len,
		       "%" PRIu64 " of %" PRIu64
		       " entries (%.0f %%), more than max-delete (%.0f %%)",
		       p->deleted.n + p->excess.n, p->matched.n, 100 * p->share,
		       100 * l->policy->rules.max_delete);
}

/* Formats what a scheduled run does with what max-delete keeps. */
static void scheduled_format(struct safe_text *ret, const struct policy_preview *l)
{
	char excess[128];

	excess_format(excess, sizeof(excess), l);
	if (l->plan.deleted.n == 0 && l->plan.is_over)
		safe_text_format(ret,
				 "Would delete %s: a scheduled run deletes nothing. If that is "
				 "right: reclaimctl policy run --force %s",
				 excess, l->policy->name);
	else if (l->plan.is_over)
		safe_text_format(ret,
				 "Would delete %s: a scheduled run deletes %" PRIu64
				 " for the limits, and nothing by keep and max-age. If all of it "
				 "is right: reclaimctl policy run --force %s",
				 excess, l->plan.deleted.n, l->policy->name);
	else
		safe_text_format(ret,
				 "Would delete %s: a scheduled run deletes %" PRIu64
				 ", and later runs delete the rest, as max-delete applies to 20 "
				 "hours. All of it at once: reclaimctl policy run --force %s",
				 excess, l->plan.deleted.n, l->policy->name);
}

json_t *policy_notes(const struct policy_preview *l)
{
	json_t *notes = json_array();
	struct safe_text t;
	char words[LIMIT_WORDS];

	for (enum limit limit = 0; limit < LIMITS; limit++)
		if (l->plan.shortages[limit].is_unmet) {
			safe_text_format(&t, "%s",
					 limit_words(words, &l->policy->rules, &l->plan, limit));
			(void)json_array_append_new(notes, json_words(t.line));
		}
	if (l->plan.excess.n > 0) {
		scheduled_format(&t, l);
		(void)json_array_append_new(notes, json_words(t.line));
	}
	return notes;
}

static void notes_of_plan_print(const struct policy_preview *l)
{
	json_t *notes = policy_notes(l), *note;
	size_t i;

	json_array_foreach(notes, i, note)
		screen_wrap(stdout, json_string_value(note), screen_columns(STDOUT_FILENO), 0);
	json_decref(notes);
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
	if (p->excess.n > 0) {
		sum_print("In excess of max-delete:", p->excess.n, p->excess.bytes);
		(void)putchar('\n');
	}
	left_print(s->unread, "that could not be read");
	left_print(s->locked, "that another process has locked");
	left_print(s->mounts, "with another filesystem on them");
	left_print(s->too_deep, "too deep");
	left_out_print(s);
	if (l->policy->rules.skip_open && !l->open_known)
		screen_wrap(stdout,
			    "Not all processes may be looked into by this user: more may be open",
			    screen_columns(STDOUT_FILENO), 0);
}

char *policy_paths_text(const struct policy *p)
{
	char *one[2], *s = NULL;
	char *const *paths = policy_paths(p, one);
	size_t len;
	FILE *f = open_memstream(&s, &len);

	for (size_t i = 0; f && paths[i]; i++) {
		_cleanup_free_ char *shown = screen_name(paths[i]);

		(void)fprintf(f, "%s%s", i > 0 ? ", " : "", shown ? shown : "?");
	}
	return f && fclose(f) == 0 ? s : NULL;
}

void policy_preview_print(const struct policy_preview *l)
{
	_cleanup_free_ char *paths = policy_paths_text(&l->policy->rules);
	_cleanup_free_ char *path = screen_name(l->policy->rules.path);
	const struct policy_entries *e = &l->scan.entries;
	char zone[ZONE_NAME_SIZE];

	(void)printf("%s: %s\n", l->policy->name, paths ? paths : "?");
	if (policy_has_keep(&l->policy->rules) || l->policy->rules.time.clock == CLOCK_NAME)
		(void)printf("Time zone: %s\n",
			     zone_name(l->policy->rules.timezone, zone, sizeof(zone)));
	if (e->n == 0)
		(void)puts("Nothing matches");
	else
		(void)printf("%-6s  %10s  %10s  %s\n", "FATE", "AGE", "FREES", "NAME");
	for (size_t i = 0; i < e->n; i++)
		entry_print(l, &e->v[l->plan.order[i]]);
	totals_print(l);
	missing_print(l, path ? path : "?");
	if (policy_marks_words(l))
		(void)printf("%s %s\n", path ? path : "?", policy_marks_words(l));
	notes_of_plan_print(l);
}

/* In the order of the columns; the last one has no width. */
enum { NAME, PATH, SCHEDULE, LAST, NEXT, MATCH, COLUMNS };

static char *match_format(const json_t *state)
{
	const json_t *match = json_object_get(state, "match"), *g;
	char *s = NULL;
	size_t len, i;
	FILE *f = open_memstream(&s, &len);

	if (!f)
		return NULL;
	json_array_foreach(match, i, g)
		(void)fprintf(f, "%s%s", i > 0 ? " " : "", json_string_value(g));
	if (!json_is_true(json_object_get(state, "rules")))
		(void)fputs("  (no rule: deletes nothing)", f);
	return fclose(f) == 0 ? s : NULL;
}

struct policy_row {
	char path[PATH_MAX + 32]; /* where there are several */
	char last[POLICY_WORDS], next[POLICY_WORDS];
	const char *cells[COLUMNS]; /* but MATCH */
};

static void row_fill(struct policy_row *r, const json_t *state)
{
	const char *schedule = json_text(state, "schedule");
	const json_t *paths = json_object_get(state, "paths");

	*r = (struct policy_row){ .cells = { [NAME] = json_text(state, "name"),
					     [PATH] = json_text(state, "path"),
					     [SCHEDULE] = schedule[0] ? schedule : "-" } };
	if (json_array_size(paths) > 1) {
		(void)snprintf(r->path, sizeof(r->path), "%s (+%zu)",
			       json_string_value(json_array_get(paths, 0)),
			       json_array_size(paths) - 1);
		r->cells[PATH] = r->path;
	}
	r->cells[LAST] = policy_last_format(r->last, state);
	r->cells[NEXT] = policy_next_format(r->next, state);
}

/* What else there is to know, each in a line of its own below the name. */
static void notes_print(const json_t *state)
{
	const json_t *last = json_object_get(state, "last");
	const json_t *why = json_object_get(last, "why"), *line;
	const json_t *first = json_object_get(state, "first_run");
	uint64_t excess = json_number(json_object_get(last, "excess"), "entries");
	uint64_t pinned = json_number(json_object_get(last, "pinned"), "entries");
	char count[COUNTED_SIZE];
	size_t i;

	if (!json_is_true(json_object_get(state, "path_exists")))
		(void)puts("  its path does not exist: it deletes nothing");
	if (excess > 0)
		(void)printf("  %s in excess of max-delete: see reclaimctl policy plan %s\n",
			     counted_format(count, sizeof(count), excess, "entry", "entries"),
			     json_text(state, "name"));
	if (pinned > 0)
		(void)printf("  %s pinned: see reclaimctl policy plan %s\n",
			     counted_format(count, sizeof(count), pinned, "entry", "entries"),
			     json_text(state, "name"));
	json_array_foreach(why, i, line)
		(void)printf("  %s\n", json_string_value(line));
	json_array_foreach(first, i, line)
		(void)printf("  first run: %s\n", json_string_value(line));
}

void policies_print(const json_t *states)
{
	static const char *const titles[COLUMNS] = { "NAME", "PATH", "SCHEDULE",
						     "LAST", "NEXT", "MATCH" };
	size_t widths[COLUMNS] = { 0 }, i;
	struct policy_row r;
	const json_t *state;

	if (json_array_size(states) == 0) {
		(void)puts("no policies");
		return;
	}
	for (int c = 0; c < MATCH; c++)
		widths[c] = strlen(titles[c]);
	json_array_foreach(states, i, state) {
		row_fill(&r, state);
		for (int c = 0; c < MATCH; c++)
			widths[c] = MAX(widths[c], screen_width(r.cells[c]));
	}
	for (int c = 0; c < COLUMNS; c++)
		(void)printf("%-*s%s", (int)widths[c], titles[c], c < MATCH ? "  " : "\n");
	json_array_foreach(states, i, state) {
		_cleanup_free_ char *match = match_format(state);

		row_fill(&r, state);
		for (int c = 0; c < MATCH; c++)
			(void)printf("%s%*s  ", r.cells[c],
				     (int)(widths[c] - screen_width(r.cells[c])), "");
		(void)puts(match ? match : "?");
		notes_print(state);
	}
}
