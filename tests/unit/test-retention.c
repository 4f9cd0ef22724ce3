/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "policy/retention.h"
#include "policy/rules.h"
#include "support.h"
#include "base/macros.h"

#define HOUR 3600LL
#define SERIES_MOST 64

/* Which of these times (seconds, newest first) are kept: a K or - for each. */
static void decide(const struct policy_keep *k, const int64_t *times, size_t n, char *ret)
{
	struct periods s = { 0 };
	unsigned oldest;

	for (size_t i = 0; i < n; i++)
		ret[i] = periods_step(&s, k, times[i] * NSEC_PER_SEC, i + 1 == n, &oldest) ? 'K'
											   : '-';
	ret[n] = '\0';
}

static void keep_parse(struct policy_keep *k, char *words)
{
	char *save = NULL;

	for (char *w = strtok_r(words, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		char *value = strchr(w, '=');
		int rule = 0;

		ck_assert_ptr_nonnull(value);
		*value++ = '\0';
		while (rule < KEEP_RULES && strcmp(w, keep_rule_name((enum keep_rule)rule)) != 0)
			rule++;
		ck_assert_int_lt(rule, KEEP_RULES);
		if (rule == KEEP_WITHIN)
			k->within_usec = strtoull(value, NULL, 10) * HOUR * USEC_PER_SEC;
		else
			k->periods[rule] = strtoull(value, NULL, 10);
	}
}

/* Of entries with the same time it does not matter which are kept, only how many. */
static bool is_same(const int64_t *times, size_t n, const char *a, const char *b)
{
	for (size_t i = 0, j; i < n; i = j) {
		int more = 0;

		for (j = i; j < n && times[j] == times[i]; j++)
			more += (a[j] == 'K') - (b[j] == 'K');
		if (more != 0)
			return false;
	}
	return true;
}

static void check_line(char *line)
{
	char zone[64], rules[256], steps[2048], expected[SERIES_MOST + 1], got[SERIES_MOST + 1];
	int64_t times[SERIES_MOST];
	struct policy_keep k = { 0 };
	char *save = NULL;
	size_t n = 1;

	ck_assert_int_eq(
		sscanf(line, "%63s %255s %ld %2047s %64s", zone, rules, &times[0], steps, expected),
		5);
	for (char *s = strtok_r(steps, ",", &save); s && *s != '-';
	     s = strtok_r(NULL, ",", &save), n++)
		times[n] = times[n - 1] - strtol(s, NULL, 10);
	ck_assert_uint_eq(strlen(expected), n);
	zone_set(zone);
	keep_parse(&k, rules);
	decide(&k, times, n, got);
	ck_assert_msg(is_same(times, n, got, expected), "%s\n%s is ours", line, got);
}

/* The table is made by retention/restic-table. */
START_TEST(same_as_restic)
{
	FILE *f = fopen(RETENTION "/restic.table", "re");
	char *line = NULL;
	size_t cap = 0, n = 0;

	ck_assert_ptr_nonnull(f);
	while (getline(&line, &cap, f) > 0)
		if (line[0] != '#') {
			check_line(line);
			n++;
		}
	ck_assert_uint_eq(n, 2000);
	free(line);
	ck_assert_int_eq(fclose(f), 0);
}
END_TEST

static void week_name(int64_t seconds, char *buf, size_t len)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	(void)gmtime_r(&t, &tm);
	ck_assert_uint_gt(strftime(buf, len, "%G-%V", &tm), 0);
}

/* ISO weeks against those of the C library, over the 400 years in which the calendar repeats. */
START_TEST(weeks_are_those_of_iso_8601)
{
	static const struct policy_keep k = { .periods = { [KEEP_WEEKLY] = 2 } };

	zone_set("UTC");
	for (int64_t day = -200 * 365 - 48; day <= 200 * 365 + 49; day++) {
		struct periods s = { 0 };
		unsigned oldest;
		char week[16], before[16];

		week_name(day * 24 * HOUR, week, sizeof(week));
		week_name((day - 1) * 24 * HOUR, before, sizeof(before));
		ck_assert(periods_step(&s, &k, day * 24 * HOUR * NSEC_PER_SEC, false, &oldest) !=
			  0);
		ck_assert_msg((periods_step(&s, &k, (day - 1) * 24 * HOUR * NSEC_PER_SEC, false,
					    &oldest) != 0) == (strcmp(week, before) != 0),
			      "%s after %s", week, before);
	}
}
END_TEST

START_TEST(each_rule_says_what_it_keeps)
{
	struct policy_keep k = { .periods = { 1, 1, 2, 1, 1, 1 },
				 .within_usec = 30 * HOUR * USEC_PER_SEC };
	struct periods s = { 0 };
	unsigned oldest;

	zone_set("UTC");
	ck_assert_uint_eq(periods_step(&s, &k, 1000000 * NSEC_PER_SEC, false, &oldest),
			  (1U << KEEP_RULES) - 1);
	ck_assert_uint_eq(
		periods_step(&s, &k, (1000000 - 24 * HOUR) * NSEC_PER_SEC, false, &oldest),
		1U << KEEP_DAILY | 1U << KEEP_WITHIN);
	/* The bound itself is outside. */
	ck_assert_uint_eq(
		periods_step(&s, &k, (1000000 - 30 * HOUR) * NSEC_PER_SEC + 1, false, &oldest),
		1U << KEEP_WITHIN);
	ck_assert_uint_eq(
		periods_step(&s, &k, (1000000 - 30 * HOUR) * NSEC_PER_SEC, false, &oldest), 0);
}
END_TEST

/* The hour before 1970 is an hour, too, and the day one of 1969. */
START_TEST(times_before_the_epoch)
{
	struct policy_keep k = { .periods = { [KEEP_YEARLY] = 2 } };
	struct periods s = { 0 };
	unsigned oldest;

	zone_set("UTC");
	ck_assert(periods_step(&s, &k, 0, false, &oldest));
	ck_assert(periods_step(&s, &k, -1, false, &oldest));
	ck_assert(!periods_step(&s, &k, -2 * NSEC_PER_SEC, false, &oldest));
}
END_TEST

/* With an entry every 20 minutes, through days of 23, 25 and no hours, and weeks across the ends of
 * years: as many days, weeks and hours are kept as the rule says, each by its newest entry. */
START_TEST(test_attack_19_zones_and_their_changes)
{
	static const struct {
		const char *zone;
		int64_t newest;
	} rows[] = {
		{ "Europe/Berlin", 1711850400 }, /* 31 March 2024, an hour after the gap */
		{ "Europe/Berlin", 1729994400 }, /* 27 October 2024, in the hour that comes twice */
		{ "Australia/Lord_Howe", 1712415600 }, /* half an hour twice */
		{ "Pacific/Apia", 1325300000 },        /* behind a day that there was not */
		{ "America/St_Johns", 1131000000 },    /* changes a minute after midnight */
		{ "Pacific/Kiritimati", 1704067200 },  { "Pacific/Niue", 1704067200 },
	};
	static const enum keep_rule rules[] = { KEEP_HOURLY, KEEP_DAILY, KEEP_WEEKLY };
	static const int64_t spans[] = { HOUR, 24 * HOUR, 7 * 24 * HOUR };

	for (size_t i = 0; i < ELEMENTSOF(rows); i++)
		for (size_t k = 0; k < ELEMENTSOF(rules); k++) {
			struct policy_keep keep = { 0 };
			struct periods s = { 0 };
			int64_t t = rows[i].newest, last = t;
			unsigned kept = 0, oldest;

			keep.periods[rules[k]] = 7;
			zone_set(rows[i].zone);
			for (; rows[i].newest - t < 12 * spans[k]; t -= 20 * 60) {
				if (!periods_step(&s, &keep, t * NSEC_PER_SEC, false, &oldest))
					continue;
				kept++;
				ck_assert_int_le(last - t, spans[k] + 24 * HOUR);
				last = t;
			}
			ck_assert_msg(kept == 7, "%s %zu: %u", rows[i].zone, k, kept);
			ck_assert_int_ge(rows[i].newest - last, 5 * spans[k]);
		}
}
END_TEST

/* ---- units and chains -------------------------------------------------------------------------
 */

#define DAY_NSEC (86400 * NSEC_PER_SEC)
#define NOW (20000 * DAY_NSEC + 43200 * NSEC_PER_SEC)
#define ENTRIES_MOST 40

static const struct policy_moment now = { .now_nsec = NOW, .unbounded = true };

/* Adds an entry whose name says how it is to be taken: "1a" is an entry of unit 1, "-b" one of its
 * own; a capital letter starts a chain. */
static void add(struct policy_entries *l, const char *name, int64_t time_nsec,
		enum disposition disposition)
{
	char unit[] = { name[0] == '-' ? '\0' : name[0], '\0' };
	const struct policy_entry e = { .name = name,
					.series = "",
					.unit_name = unit,
					.starts_chain = name[1] < 'a',
					.time_nsec = time_nsec,
					.bytes = 1,
					.disposition = (uint8_t)disposition };

	ck_assert_int_eq(entries_add(l, &e), 0);
}

static struct policy_plan plan_make(const struct policy *p, struct policy_entries *l)
{
	struct policy_plan plan = { 0 };

	zone_set("UTC");
	ck_assert_int_eq(rules_decide(&plan, p, l, now), 0);
	return plan;
}

/* retention_decide goes by starts_chain: which patterns there are does not matter. */
static char *chains[] = { NULL };

/* Entries of one day each, the newest first, and the names of those that go. */
static const struct unit_row {
	struct policy p;
	const char *names[12];
	const char *pinned;
	const char *deleted;
} unit_rows[] = {
	/* Three files are one: two units are kept, not two files. */
	{ { .unit_by = (char *)"", .keep.periods[KEEP_LAST] = 2 },
	  { "1a", "1b", "1c", "2a", "2b", "2c", "3a", "3b", "3c" },
	  NULL,
	  "3a 3b 3c" },
	/* A unit is as old as its newest entry: 2 is one day old. */
	{ { .unit_by = (char *)"", .max_age_usec = 2 * 86400 * USEC_PER_SEC },
	  { "1a", "2a", "-b", "-c", "2b", "3a" },
	  NULL,
	  "-c 3a" },
	/* If one cannot be deleted, none is. */
	{ { .unit_by = (char *)"", .keep.periods[KEEP_LAST] = 1 },
	  { "1a", "2a", "2b", "3a" },
	  "2b",
	  "3a" },
	{ { .unit_by = (char *)"", .keep.periods[KEEP_LAST] = 1, .min_count = 2 },
	  { "1a", "1b", "2a", "3a", "2b" },
	  NULL,
	  "3a" },
	/* Chains: a full backup and the incremental ones that are based on it. Each counts. */
	{ { .chain_start = chains, .keep.periods[KEEP_LAST] = 1 },
	  { "-a", "-b", "-C", "-d", "-E", "-f" },
	  NULL,
	  "-d -E -f" },
	{ { .chain_start = chains, .keep.periods[KEEP_LAST] = 4 },
	  { "-a", "-b", "-C", "-d", "-e", "-F" },
	  NULL,
	  "" },
	/* Of a chain that is partly older than max-age nothing goes. */
	{ { .chain_start = chains, .max_age_usec = 3 * 86400 * USEC_PER_SEC },
	  { "-a", "-B", "-c", "-d", "-e", "-F", "-g", "-H" },
	  NULL,
	  "-g -H" },
	{ { .chain_start = chains, .keep.periods[KEEP_LAST] = 1 },
	  { "-A", "-b", "-c", "-D", "-e", "-F" },
	  "-c",
	  "-e -F" },
	/* A full backup with its checksum, and the rest. */
	{ { .unit_by = (char *)"", .chain_start = chains, .keep.periods[KEEP_LAST] = 1 },
	  { "1a", "1b", "2C", "2d", "3a", "4E" },
	  NULL,
	  "3a 4E" },
};

START_TEST(units_and_chains_go_together_or_not)
{
	for (size_t i = 0; i < ELEMENTSOF(unit_rows); i++) {
		const struct unit_row *t = &unit_rows[i];
		struct policy_entries l = { 0 };
		struct policy_plan plan;
		char gone[64] = "";

		for (size_t k = 0; t->names[k]; k++)
			add(&l, t->names[k], NOW - (int64_t)k * DAY_NSEC,
			    t->pinned && strcmp(t->pinned, t->names[k]) == 0
				    ? DISPOSITION_PINNED
				    : DISPOSITION_UNDECIDED);
		plan = plan_make(&t->p, &l);
		for (size_t k = 0; k < l.n; k++)
			if (entry_goes(&l.v[k]))
				(void)snprintf(gone + strlen(gone), sizeof(gone) - strlen(gone),
					       "%s%s", gone[0] ? " " : "", l.v[k].name);
		ck_assert_msg(strcmp(gone, t->deleted) == 0, "%zu: %s", i, gone);
		policy_plan_done(&plan);
		entries_done(&l);
	}
}
END_TEST

/* Entries of the same time: the full backup is the older one. */
START_TEST(chains_begin_with_the_full_backup)
{
	static const struct policy p = { .chain_start = chains, .keep.periods[KEEP_LAST] = 1 };
	struct policy_entries l = { 0 };
	struct policy_plan plan;

	add(&l, "-Z", NOW - DAY_NSEC, DISPOSITION_UNDECIDED);
	add(&l, "-a", NOW - DAY_NSEC, DISPOSITION_UNDECIDED);
	plan = plan_make(&p, &l);
	ck_assert_int_eq(l.v[0].disposition, DISPOSITION_UNIT);
	ck_assert_int_eq(l.v[1].disposition, DISPOSITION_KEPT);
	policy_plan_done(&plan);
	entries_done(&l);
}
END_TEST

/* ---- against a slow reference -----------------------------------------------------------------
 */

struct model {
	struct policy_entry *v[ENTRIES_MOST];
	bool stays[ENTRIES_MOST];
	size_t n;
};

static bool same_unit(const struct policy_entry *a, const struct policy_entry *b)
{
	return a == b || (a->unit_name[0] && strcmp(a->unit_name, b->unit_name) == 0 &&
			  strcmp(a->series, b->series) == 0);
}

/* The time of the unit of an entry; INT64_MAX if it has no place in the series. */
static int64_t unit_time(const struct model *m, const struct policy_entry *e)
{
	int64_t newest = INT64_MIN;

	for (size_t i = 0; i < m->n; i++)
		if (same_unit(m->v[i], e)) {
			if (m->v[i]->disposition == DISPOSITION_NO_TIME || m->v[i]->time_nsec > NOW)
				return INT64_MAX;
			newest = MAX(newest, m->v[i]->time_nsec);
		}
	return newest;
}

static void period_of(int64_t time_nsec, unsigned rule, char buf[32])
{
	time_t t = time_nsec / NSEC_PER_SEC;
	struct tm tm;

	(void)gmtime_r(&t, &tm);
	buf[0] = '\0';
	if (rule == KEEP_HOURLY)
		(void)strftime(buf, 32, "%Y%m%d%H", &tm);
	else if (rule == KEEP_DAILY)
		(void)strftime(buf, 32, "%Y%m%d", &tm);
	else if (rule == KEEP_WEEKLY)
		(void)strftime(buf, 32, "%G%V", &tm);
	else if (rule == KEEP_MONTHLY)
		(void)strftime(buf, 32, "%Y%m", &tm);
	else
		(void)strftime(buf, 32, "%Y", &tm);
}

/* Does a rule of keep keep a time? `times` are those of all units, the newest first, each once for
 * each unit; `at` is its place among them. */
static bool rule_keeps(const int64_t *times, size_t n, size_t at, unsigned rule, uint64_t most)
{
	uint64_t kept = 0;
	bool keeps = false;

	for (size_t i = 0; i <= at; i++) {
		char period[32], before[32] = "";

		period_of(times[i], rule, period);
		if (i > 0)
			period_of(times[i - 1], rule, before);
		keeps = kept < most &&
			(rule == KEEP_LAST || i == 0 || i == n - 1 || strcmp(period, before) != 0);
		kept += keeps;
	}
	return keeps;
}

static bool model_keeps(const struct policy *p, const int64_t *times, size_t n, size_t at)
{
	if (p->keep.within_usec > 0 &&
	    (uint64_t)(times[0] - times[at]) < p->keep.within_usec * 1000)
		return true;
	for (unsigned rule = 0; rule < KEEP_WITHIN; rule++)
		if (rule_keeps(times, n, at, rule, p->keep.periods[rule]))
			return true;
	return at < p->min_count || (uint64_t)(NOW - times[at]) / 1000 < p->min_age_usec;
}

/* Which entries stay, each decided by itself; then those of their units, until nothing changes. */
static void model_decide(const struct policy *p, struct model *m)
{
	int64_t times[ENTRIES_MOST];
	size_t n = 0;

	/* The times of the units that count. */
	for (size_t i = m->n; i-- > 0;) {
		bool counted = unit_time(m, m->v[i]) == INT64_MAX;

		for (size_t k = i + 1; k < m->n && !counted; k++)
			counted = same_unit(m->v[i], m->v[k]);
		if (!counted)
			times[n++] = unit_time(m, m->v[i]);
	}
	for (size_t i = 1; i < n; i++) /* insertion sort, newest first */
		for (size_t k = i; k > 0 && times[k] > times[k - 1]; k--) {
			int64_t swapped = times[k];

			times[k] = times[k - 1];
			times[k - 1] = swapped;
		}
	for (size_t i = 0; i < m->n; i++) {
		int64_t t = unit_time(m, m->v[i]);
		size_t at = 0;

		m->stays[i] = t == INT64_MAX || m->v[i]->disposition != DISPOSITION_UNDECIDED;
		while (t != INT64_MAX && times[at] != t)
			at++;
		if (t != INT64_MAX && model_keeps(p, times, n, at))
			m->stays[i] = true;
	}
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < m->n; i++)
			for (size_t k = 0; k < m->n; k++)
				if (m->stays[i] && !m->stays[k] && same_unit(m->v[i], m->v[k]))
					changed = m->stays[k] = true;
	}
}

static uint64_t draw(uint64_t *s, uint64_t most)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s % (most + 1);
}

/* Nothing stays or goes but what the reference says; the order in which the entries come, the
 * locale and the environment's zone make no difference. Times of units are all different, so that
 * the reference needs no order of its own for equal ones. */
START_TEST(random_units_are_kept_as_the_reference_says)
{
	static const char *const locales[] = { "C", "C.UTF-8" };
	uint64_t s = 88172645463325252ULL, n_gone = 0, n_stays = 0;

	zone_set("UTC");
	for (unsigned round = 0; round < 3000; round++) {
		struct policy p = { .unit_by = (char *)"" };
		struct policy_entries l = { 0 }, turned = { 0 };
		char names[ENTRIES_MOST][8];
		size_t n = 1 + draw(&s, ENTRIES_MOST - 1);
		struct policy_plan plan = { 0 }, again = { 0 };
		struct model m = { .n = n };

		for (unsigned rule = 0; rule < KEEP_WITHIN; rule++)
			p.keep.periods[rule] = draw(&s, 2) ? 0 : draw(&s, 6);
		p.keep.within_usec = draw(&s, 3) ? 0 : draw(&s, 9) * 86400 * USEC_PER_SEC;
		if (!policy_has_keep(&p))
			p.keep.periods[KEEP_DAILY] = 1;
		p.min_count = draw(&s, 3) ? 0 : draw(&s, 4);
		p.min_age_usec = draw(&s, 3) ? 0 : draw(&s, 5) * 86400 * USEC_PER_SEC;
		for (size_t i = 0; i < n; i++) {
			(void)snprintf(names[i], sizeof(names[i]), "%c%c",
				       draw(&s, 1) ? '-' : (char)('0' + draw(&s, 9)),
				       (char)('a' + i));
			add(&l, names[i],
			    NOW - (int64_t)draw(&s, 40 * 24) * 3600 * NSEC_PER_SEC -
				    (int64_t)i * NSEC_PER_SEC,
			    draw(&s, 20) == 0   ? DISPOSITION_PINNED
			    : draw(&s, 30) == 0 ? DISPOSITION_NO_TIME
						: DISPOSITION_UNDECIDED);
			if (draw(&s, 30) == 0)
				l.v[i].time_nsec = NOW + DAY_NSEC;
		}
		for (size_t i = n; i-- > 0;)
			ck_assert_int_eq(entries_add(&turned, &l.v[i]), 0);
		for (size_t i = 0; i < n; i++)
			m.v[i] = &l.v[i];
		model_decide(&p, &m);
		ck_assert_ptr_nonnull(setlocale(LC_ALL, locales[round % 2]));
		ck_assert_int_eq(rules_decide(&plan, &p, &l, now), 0);
		ck_assert_int_eq(rules_decide(&again, &p, &turned, now), 0);
		for (size_t i = 0; i < n; i++) {
			ck_assert_msg(entry_goes(&l.v[i]) == !m.stays[i], "round %u: %s: %s", round,
				      l.v[i].name, disposition_name(l.v[i].disposition));
			ck_assert_int_eq(l.v[i].disposition, turned.v[n - 1 - i].disposition);
			n_gone += !m.stays[i];
			n_stays += m.stays[i];
		}
		policy_plan_done(&plan);
		policy_plan_done(&again);
		entries_done(&l);
		entries_done(&turned);
	}
	(void)setlocale(LC_ALL, "C");
	ck_assert_uint_gt(n_gone, 3000);
	ck_assert_uint_gt(n_stays, 3000);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { same_as_restic,
				 weeks_are_those_of_iso_8601,
				 each_rule_says_what_it_keeps,
				 times_before_the_epoch,
				 test_attack_19_zones_and_their_changes,
				 units_and_chains_go_together_or_not,
				 chains_begin_with_the_full_backup,
				 random_units_are_kept_as_the_reference_says };

	return run_case("retention", tests, ELEMENTSOF(tests));
}
