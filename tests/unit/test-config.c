/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config-support.h"
#include "base/similar.h"
#include "base/fd.h"
#include "base/macros.h"

#define HOUR (3600 * USEC_PER_SEC)

START_TEST(nothing_is_a_configuration)
{
	static const char *const texts[] = {
		"",   "# nothing\n",        "---\n",
		"{}", "spools:\npacing:\n", "\xef\xbb\xbf# with a byte order mark\n"
	};
	struct config *c = NULL;
	struct heard h = { 0 };

	(void)config_dir_make();
	for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
		c = load_good(texts[i]);
		assert_defaults(c);
		config_free(c);
	}
	ck_assert_int_eq(config_load(&c, "/nonexistent/a", NULL, hear, &h), 0);
	assert_defaults(c);
	ck_assert_ptr_null(c->files[0]);
	config_free(c);
	config_free(NULL);
	config_dir_remove();
}
END_TEST

START_TEST(every_key_is_read)
{
	struct config *c;

	(void)config_dir_make();
	c = load_good("undo: 5min\n"
		      "spools:\n"
		      "  /backups//.trash/:\n"
		      "    settle: 1min 30s\n"
		      "    undo: \"1h\"\n"
		      "    on-failure: tell@.service\n"
		      "  '/b c': {on-success: told.target}\n"
		      "pacing:\n"
		      "  devices:\n"
		      "    8:16: {latency: off}\n"
		      "    /dev/sda: {max-rate: 100MB/s}\n"
		      "  latency: 5ms\n"
		      "  min-rate: 1 MiB\n"
		      "  max-rate: 1G\n"
		      "  windows:\n"
		      "    Mon..Fri 08:00..18:00: {rate: 20MiB/s}\n"
		      "    \"22:00..06:00\": {rate: paused}\n"
		      "urgent: {below: 20G, until: 40G}\n"
		      "staging: off\n"
		      "history: 0\n"
		      "limits: {jobs-per-user: 7, names-per-user: 1234, history-jobs: 5000, "
		      "history-size: 2M}\n"
		      "protect: [/srv/keep, /srv/a]\n");
	ck_assert_uint_eq(c->undo_usec, HOUR / 12);
	ck_assert_uint_eq(c->n_spools, 2);
	ck_assert_str_eq(c->spools[0].path, "/backups/.trash");
	ck_assert_uint_eq(c->spools[0].settle_usec, 90 * USEC_PER_SEC);
	ck_assert_uint_eq(c->spools[0].undo_usec, HOUR);
	ck_assert_uint_eq(c->spools[0].place.line, 3);
	ck_assert_uint_eq(c->spools[0].place.column, 3);
	ck_assert_str_eq(c->spools[0].place.file, c->files[0]);
	ck_assert_str_eq(c->spools[0].hooks.on_failure, "tell@.service");
	ck_assert_uint_eq(c->spools[0].hooks.failure_place.line, 6);
	ck_assert_ptr_null(c->spools[0].hooks.on_success);
	/* What a spool does not say. */
	ck_assert_str_eq(c->spools[1].path, "/b c");
	ck_assert_str_eq(c->spools[1].hooks.on_success, "told.target");
	ck_assert_uint_eq(c->spools[1].settle_usec, 10 * USEC_PER_SEC);
	ck_assert_uint_eq(c->spools[1].undo_usec, HOUR / 12);
	ck_assert_int_eq(c->pacing.latency, LATENCY_BOUND);
	ck_assert_uint_eq(c->pacing.latency_usec, 5000);
	ck_assert_uint_eq(c->pacing.rate_min, MiB(1));
	ck_assert_uint_eq(c->n_windows, 2);
	ck_assert_str_eq(c->windows[0].span, "Mon..Fri 08:00..18:00");
	ck_assert_uint_eq(c->windows[0].rate, MiB(20));
	ck_assert_str_eq(c->windows[1].span, "22:00..06:00");
	ck_assert_uint_eq(c->windows[1].rate, 0);
	ck_assert_uint_eq(c->pacing.rate_max, 1ULL << 30);
	ck_assert_uint_eq(c->n_devices, 2);
	ck_assert_str_eq(c->devices[0].name, "8:16");
	ck_assert_int_eq(c->devices[0].pacing.latency, LATENCY_OFF);
	/* What a device does not say, though it stands before. */
	ck_assert_uint_eq(c->devices[0].pacing.rate_min, MiB(1));
	ck_assert_int_eq(c->devices[1].pacing.latency, LATENCY_BOUND);
	ck_assert_uint_eq(c->devices[1].pacing.rate_max, 100000000);
	ck_assert(!c->urgent_below.is_share);
	ck_assert_uint_eq(c->urgent_below.bytes, 20ULL << 30);
	ck_assert_uint_eq(c->urgent_until.bytes, 40ULL << 30);
	ck_assert(!c->staging);
	ck_assert_uint_eq(c->history_usec, 0);
	ck_assert_uint_eq(c->jobs_per_user, 7);
	ck_assert_uint_eq(c->names_per_user, 1234);
	ck_assert_uint_eq(c->history_jobs, 5000);
	ck_assert_uint_eq(c->history_bytes, 2 << 20);
	ck_assert_str_eq(c->protect[0], "/srv/keep");
	ck_assert_str_eq(c->protect[1], "/srv/a");
	ck_assert_ptr_null(c->protect[2]);
	config_free(c);
	config_dir_remove();
}
END_TEST

START_TEST(every_key_of_a_policy_is_read)
{
	const struct policy *p;
	struct config *c;

	(void)config_dir_make();
	c = load_good(
		"policies:\n"
		"  pg_backups-1:\n"
		"    path: //backups/pg/\n"
		"    match: ['*.tar.gz', \"**/*.dump\"]\n"
		"    exclude: keep/**\n"
		"    size: {min: 1M, below: 10G}\n"
		"    owner: [backup, 1000]\n"
		"    kind: tree\n"
		"    group-by: ^([a-z]+)-\n"
		"    time: name:%Y-%m-%d\n"
		"    order: largest\n"
		"    keep: {last: 3, hourly: 24, daily: 7, weekly: 4, monthly: 6, yearly: 2,\n"
		"           within: 14d}\n"
		"    max-age: 90d\n"
		"    max-size: 500G\n"
		"    max-files: 1000\n"
		"    min-free: {below: 10%, until: 15%}\n"
		"    min-free-inodes: {below: 5%, until: 8%}\n"
		"    min-age: 1h 30min\n"
		"    min-count: 2\n"
		"    max-delete: 50%\n"
		"    skip-open: false\n"
		"    undo: 2h\n"
		"    schedule: Mon *-*-* 03:00\n"
		"  b: {path: /b, match: '*', min-free: 20G, owner: www-data,\n"
		"    min-free-inodes: 100000}\n"
		"  c: {path: /c, match: '*', kind: empty-directory, max-age: 1d}\n"
		"undo: 1h\n");
	ck_assert_uint_eq(c->n_policies, 3);
	ck_assert_int_eq(c->policies[2].rules.kind, POLICY_EMPTY_DIRECTORIES);
	ck_assert_str_eq(c->policies[0].name, "pg_backups-1");
	ck_assert_uint_eq(c->policies[0].place.line, 2);
	ck_assert_str_eq(c->policies[0].schedule, "Mon *-*-* 03:00");
	ck_assert_uint_eq(c->policies[0].schedule_place.column, 15);
	ck_assert_uint_eq(c->policies[0].owner_place.line, 7);
	p = &c->policies[0].rules;
	ck_assert_str_eq(p->path, "/backups/pg");
	ck_assert_str_eq(p->match[0], "*.tar.gz");
	ck_assert_str_eq(p->match[1], "**/*.dump");
	ck_assert_ptr_null(p->match[2]);
	ck_assert_str_eq(p->exclude[0], "keep/**");
	ck_assert_ptr_null(p->exclude[1]);
	ck_assert_uint_eq(p->size_least_bytes, MiB(1));
	ck_assert_uint_eq(p->size_below_bytes, 10ULL << 30);
	ck_assert_str_eq(p->owners[0], "backup");
	ck_assert_str_eq(p->owners[1], "1000");
	ck_assert_ptr_null(p->owners[2]);
	ck_assert_int_eq(p->kind, POLICY_TREES);
	ck_assert_str_eq(p->group_by, "^([a-z]+)-");
	ck_assert_int_eq(p->time.clock, CLOCK_NAME);
	ck_assert_uint_eq(p->time.ages, 0);
	ck_assert_str_eq(p->time.format, "%Y-%m-%d");
	ck_assert_int_eq(p->order, ORDER_LARGEST);
	for (int i = 0; i < KEEP_WITHIN; i++)
		ck_assert_uint_eq(p->keep.periods[i], ((uint64_t[]){ 3, 24, 7, 4, 6, 2 })[i]);
	ck_assert_uint_eq(p->keep.within_usec, 14 * 24 * HOUR);
	ck_assert_uint_eq(p->max_age_usec, 90 * 24 * HOUR);
	ck_assert_uint_eq(p->max_size_bytes, 500ULL << 30);
	ck_assert_uint_eq(p->max_files, 1000);
	ck_assert(p->min_free_below.is_share && p->min_free_until.is_share);
	ck_assert_double_eq_tol(p->min_free_below.share, 0.1, 1e-9);
	ck_assert_double_eq_tol(p->min_free_until.share, 0.15, 1e-9);
	ck_assert_double_eq_tol(p->min_inodes_below.share, 0.05, 1e-9);
	ck_assert_double_eq_tol(p->min_inodes_until.share, 0.08, 1e-9);
	ck_assert_uint_eq(p->min_age_usec, HOUR * 3 / 2);
	ck_assert_uint_eq(p->min_count, 2);
	ck_assert_double_eq_tol(p->max_delete, 0.5, 1e-9);
	ck_assert(!p->skip_open);
	/* What one does not say. */
	p = &c->policies[1].rules;
	ck_assert_ptr_null(c->policies[1].schedule);
	ck_assert_str_eq(p->owners[0], "www-data");
	ck_assert_ptr_null(p->owners[1]);
	ck_assert_uint_eq(p->size_least_bytes + p->size_below_bytes, 0);
	ck_assert_uint_eq(c->policies[0].undo_usec, 2 * HOUR);
	ck_assert_uint_eq(c->policies[1].undo_usec, HOUR);
	ck_assert_int_eq(p->kind, POLICY_FILES);
	ck_assert_int_eq(p->order, ORDER_OLDEST);
	ck_assert_int_eq(p->time.clock, CLOCK_AGE);
	ck_assert_uint_eq(p->time.ages, AGE_MTIME);
	ck_assert(p->skip_open && !policy_has_keep(p) && policy_has_rules(p));
	ck_assert_double_eq_tol(p->max_delete, 0.2, 1e-9);
	ck_assert_uint_eq(p->max_size_bytes + p->max_files + p->max_age_usec + p->min_count, 0);
	ck_assert_uint_eq(p->min_free_below.bytes, 20ULL << 30);
	ck_assert_uint_eq(p->min_free_until.bytes, 20ULL << 30);
	ck_assert(!p->min_inodes_below.is_share && !p->min_inodes_until.is_share);
	ck_assert_uint_eq(p->min_inodes_below.bytes, 100000);
	ck_assert_uint_eq(p->min_inodes_until.bytes, 100000);
	config_free(c);
	config_dir_remove();
}
END_TEST

/* Names begin in the directory that all of them are in. */
START_TEST(several_paths_have_one_base)
{
	static const struct {
		const char *paths, *base;
	} rows[] = {
		{ "[/srv/a/logs, /srv/b/logs]", "/srv" },     { "[//srv/a/logs/]", "/srv/a/logs" },
		{ "[/srv/ab, /srv/a, /srv/abc]", "/srv" },    { "[/srv/a, /srw]", "/" },
		{ "[/srv/x/ab, /srv/x/a, /srv/xy]", "/srv" }, { "[/a, /b]", "/" },
	};

	(void)config_dir_make();
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		char text[256];
		struct config *c;

		(void)snprintf(text, sizeof(text), POLICY1("paths: %s, match: x, max-size: 1K"),
			       rows[i].paths);
		c = load_good(text);
		ck_assert_str_eq(c->policies[0].rules.path, rows[i].base);
		ck_assert_int_eq(c->policies[0].rules.paths[0][0], '/');
		ck_assert_uint_eq(c->policies[0].path_place.column, 23);
		config_free(c);
	}
	config_dir_remove();
}
END_TEST

START_TEST(ages_are_a_word_or_a_list)
{
	static const struct {
		const char *text;
		enum policy_clock clock;
		unsigned ages;
	} rows[] = {
		{ "time: mtime", CLOCK_AGE, AGE_MTIME },
		{ "time: birth", CLOCK_BIRTH, 0 },
		{ "age-by: birth", CLOCK_AGE, AGE_BIRTH },
		{ "age-by: [atime]", CLOCK_AGE, AGE_ATIME },
		{ "age-by: [mtime, ctime]", CLOCK_AGE, AGE_MTIME | AGE_CTIME },
		{ "age-by: [birth, atime, ctime, mtime]", CLOCK_AGE,
		  AGE_MTIME | AGE_CTIME | AGE_ATIME | AGE_BIRTH },
	};

	(void)config_dir_make();
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		char text[256];
		struct config *c;

		(void)snprintf(text, sizeof(text), RULE("match: x, max-size: 1K, %s"),
			       rows[i].text);
		c = load_good(text);
		ck_assert_int_eq(c->policies[0].rules.time.clock, rows[i].clock);
		ck_assert_uint_eq(c->policies[0].rules.time.ages, rows[i].ages);
		config_free(c);
	}
	config_dir_remove();
}
END_TEST

/* What is no error, but told: the text, or NULL for nothing. */
static const struct {
	const char *text, *says;
} odd[] = {
	{ POLICY1("path: /b"), "a.yaml:1:12: policies: a: has no match, so it deletes nothing" },
	{ POLICY1("path: /b, match: []"), "has no match, so it deletes nothing" },
	{ POLICY1("path: /b, match: x"), "policies: a: has no rule, so it deletes nothing" },
	{ POLICY1("path: /b, match: x, keep: {}"), "has no rule" },
	{ POLICY1("path: /b, match: x, keep: {last: 0}, min-count: 1"), "has no rule" },
	{ POLICY1("path: /b, match: x, keep: {last: 1}, max-age: 1d, max-files: 9"),
	  "a.yaml:1:12: policies: a: has no schedule, nor min-free, min-free-inodes or max-size, "
	  "which are watched, so it never runs by itself, but only by reclaimctl policy run a" },
	{ POLICY1("path: /b, match: x, max-age: 1d, schedule: daily"), NULL },
	{ POLICY1("path: /b, match: x, max-age: 1d, min-free: 1G"), NULL },
	{ POLICY1("path: /b, match: x, max-age: 1d, max-size: 1G"), NULL },
	{ "undo: 1h\n" POLICY1("path: /b, match: x, min-free: 1G"),
	  "policies: a: has min-free, but what it deletes is held for undo first" },
	{ "undo: 1h\n" POLICY1("path: /b, match: x, min-free: 1G, undo: 0"), NULL },
	{ POLICY1("path: /b, match: x, min-free: 1G, undo: 1h"), "has min-free, but" },
	{ POLICY1("path: /b, match: x, min-free-inodes: 1%, undo: 1h"),
	  "has min-free-inodes, but" },
	{ POLICY1("path: /b, match: x, max-age: 1d, min-free-inodes: 1%"), NULL },
	{ POLICY1("path: /b, match: x, max-size: 1K}, b: {path: /c, match: x, max-size: 1K"),
	  NULL },
	{ POLICY1("path: /b, match: x, max-size: 1K}, b: {path: /b, match: x, max-size: 1K"),
	  "policies: b: may be about the same entries as a in line 1" },
	{ POLICY1("paths: [/b, /c], match: x, max-size: 1K}, b: {paths: [/d, /e], match: x, "
		  "max-size: "
		  "1K"),
	  NULL },
	{ POLICY1("paths: [/b, /c], match: x, max-size: 1K}, b: {paths: [/d, /c], match: x, "
		  "max-size: "
		  "1K"),
	  "may be about the same entries" },
	{ POLICY1("paths: [/b, /c/d], match: x, max-size: 1K}, b: {path: /c, match: '**', "
		  "max-size: "
		  "1K"),
	  "may be about the same entries" },
	/* No file is of a size for both; a tree may have any in it. */
	{ POLICY1("path: /b, match: x, max-size: 1K, size: {below: 1M}}, b: {path: /b, match: x, "
		  "max-size: 1K, size: {min: 1M}"),
	  NULL },
	{ POLICY1("path: /b, match: x, max-size: 1K, size: {min: 1M}}, b: {path: /b, match: x, "
		  "max-size: 1K, size: {below: 1025K}"),
	  "may be about the same entries" },
	{ POLICY1("path: /b, match: x, max-size: 1K, size: {below: 1M}}, b: {path: /b, kind: tree, "
		  "match: x, max-size: 1K, size: {min: 1M}"),
	  "may be about the same entries" },
	{ POLICY1("path: /b, match: x*, max-size: 1K}, b: {path: /b, match: '*y', max-size: 1K"),
	  "may be about the same entries" },
	/* A file is in no empty directory; a tree may have one in it. */
	{ POLICY1("path: /b, match: x, max-size: 1K}, b: {path: /b, match: x, kind: "
		  "empty-directory, max-size: 1K"),
	  NULL },
	{ POLICY1("path: /b, match: x, max-size: 1K, kind: tree}, b: {path: /b, match: '*/*', "
		  "kind: empty-directory, max-size: 1K"),
	  "may be about the same entries" },
	{ POLICY1("path: /b, match: '*.a', max-size: 1K}, b: {path: /b, match: '*.b', max-size: "
		  "1K"),
	  NULL },
	{ POLICY1("path: /b, match: a*, max-size: 1K}, b: {path: /b, match: b*, max-size: 1K"),
	  NULL },
	{ POLICY1("path: /b, match: '*', max-size: 1K}, b: {path: /b/c, match: '*', max-size: 1K"),
	  NULL },
	{ POLICY1("path: /b, match: '*/*', max-size: 1K}, b: {path: /b/c, match: x, max-size: 1K"),
	  "may be about the same entries" },
	{ POLICY1("path: /b/c/d, match: x, max-size: 1K}, b: {path: /b, match: '**', max-size: 1K"),
	  "may be about the same entries" },
	{ POLICY1("path: /b/c, match: x, max-size: 1K}, b: {path: /b, kind: tree, match: c, "
		  "max-size: 1K"),
	  "may be about the same entries" },
};

START_TEST(what_is_odd_is_told)
{
	(void)config_dir_make();
	for (size_t i = 0; i < ELEMENTSOF(odd); i++) {
		struct config *c = NULL;
		struct heard h;

		ck_assert_msg(load_bytes(&c, odd[i].text, strlen(odd[i].text), &h) == 0, "%s",
			      h.text);
		ck_assert_msg(h.n_warnings == (odd[i].says != NULL), "%s: %s", odd[i].text, h.text);
		ck_assert_msg(!odd[i].says || strstr(h.text, odd[i].says), "%s", h.text);
		config_free(c);
	}
	config_dir_remove();
}
END_TEST

static int load_dirs(struct config **ret, const char *dir, struct heard *h)
{
	char vendor[128], etc[128];

	(void)snprintf(vendor, sizeof(vendor), "%s/lib", dir);
	(void)snprintf(etc, sizeof(etc), "%s/etc", dir);
	*h = (struct heard){ 0 };
	return config_load(ret, vendor, etc, hear, h);
}

START_TEST(later_files_go_over_earlier_ones)
{
	const char *dir = config_dir_make();
	struct config *c = NULL;
	struct heard h;

	file_make(dir, "lib/reclaimd.yaml", "undo: 1h\nhistory: 1d\nprotect: [/a, /b]\n");
	file_make(dir, "lib/reclaimd.d/50-x.yaml", "spools: {/s: {undo: 2h, settle: 7s}}\n");
	file_make(dir, "etc/reclaimd.yaml", "undo: 3h\npacing: {latency: 3ms}\n");
	file_make(dir, "etc/reclaimd.d/20-b.yaml", "history: 4d\npacing: {min-rate: 2M}\n");
	file_make(dir, "etc/reclaimd.d/10-a.yaml",
		  "history: 3d\nprotect: [/c, /b]\nspools: {/t: , /s/: {undo: 5h}}\n");
	file_make(dir, "etc/reclaimd.d/.hidden.yaml", "nonsense: 1\n");
	file_make(dir, "etc/reclaimd.d/20-b.yaml.dpkg-old", "nonsense: 1\n");
	ck_assert_msg(load_dirs(&c, dir, &h) == 0, "%s", h.text);
	ck_assert_uint_eq(c->undo_usec, 3 * HOUR);
	ck_assert_uint_eq(c->history_usec, 96 * HOUR);
	ck_assert_str_eq(c->protect[0], "/a");
	ck_assert_str_eq(c->protect[1], "/b");
	ck_assert_str_eq(c->protect[2], "/c");
	ck_assert_ptr_null(c->protect[3]);
	ck_assert_uint_eq(c->n_spools, 2);
	ck_assert_str_eq(c->spools[0].path, "/s");
	ck_assert_uint_eq(c->spools[0].settle_usec, 7 * USEC_PER_SEC);
	ck_assert_uint_eq(c->spools[0].undo_usec, 5 * HOUR);
	/* Its place is where it was said last. */
	ck_assert_ptr_eq(c->spools[0].place.file, c->files[3]);
	ck_assert_uint_eq(c->spools[1].undo_usec, 3 * HOUR);
	ck_assert_uint_eq(c->pacing.latency_usec, 3000);
	ck_assert_uint_eq(c->pacing.rate_min, MiB(2));
	for (size_t i = 0; i < 5; i++)
		ck_assert_ptr_nonnull(c->files[i]);
	ck_assert_ptr_null(c->files[5]);
	ck_assert_ptr_nonnull(strstr(c->files[3], "10-a.yaml"));
	config_free(c);
	config_dir_remove();
}
END_TEST

START_TEST(errors_of_all_files_are_told)
{
	const char *dir = config_dir_make();
	struct config *c = NULL;
	struct heard h;

	file_make(dir, "lib/reclaimd.yaml", "undo: x\n");
	file_make(dir, "etc/reclaimd.yaml", "undo: 1h\n");
	file_make(dir, "etc/reclaimd.d/a.yaml", "\nundo: [\n");
	file_make(dir, "etc/reclaimd.d/b.yaml", "spools: []\n");
	tree_make(dir, "etc/reclaimd.d/c.yaml/");
	ck_assert_int_eq(load_dirs(&c, dir, &h), -EBADMSG);
	ck_assert_msg(h.n == 4, "%s", h.text);
	ck_assert_ptr_nonnull(strstr(h.text, "reclaimd.yaml:1:7: undo: "));
	ck_assert_ptr_nonnull(strstr(h.text, "a.yaml:3:1: is not YAML"));
	ck_assert_ptr_nonnull(strstr(h.text, "b.yaml:1:9: spools: "));
	ck_assert_ptr_nonnull(strstr(h.text, "c.yaml:0:0: is not a regular file"));
	config_dir_remove();
}
END_TEST

START_TEST(files_together_can_be_wrong)
{
	const char *dir = config_dir_make();
	struct config *c = NULL;
	struct heard h;

	file_make(dir, "lib/reclaimd.yaml", "spools: {/a: {}}\n");
	file_make(dir, "etc/reclaimd.yaml", "\nspools: {/a/b: {}}\n");
	ck_assert_int_eq(load_dirs(&c, dir, &h), -EBADMSG);
	ck_assert_str_eq(h.text, "reclaimd.yaml:2:10: spools: /a/b: lies in the spool /a, expected "
				 "spools outside of each other\n");
	config_dir_remove();
}
END_TEST

/* Takes the # away in front of every key of the shipped file; prose has one blank behind it,
 * examples have more than two. */
static char *uncommented(void)
{
	_cleanup_free_ char *text = NULL;
	char *out;
	size_t n = 0;

	ck_assert_int_gt(fd_read_file(CONF "/reclaimd.yaml", MiB(1), &text), 0);
	out = calloc(1, strlen(text) + 1);
	ck_assert_ptr_nonnull(out);
	for (char *line = text, *end; *line; line = end) {
		bool is_key = line[0] == '#' &&
			      (strspn(line + 1, " ") == 0 || strspn(line + 1, " ") == 2);

		end = strchr(line, '\n');
		ck_assert_ptr_nonnull(end++);
		line += is_key;
		memcpy(out + n, line, (size_t)(end - line));
		n += (size_t)(end - line);
	}
	return out;
}

START_TEST(the_shipped_file_has_the_defaults)
{
	static const char *const keys[] = {
		"spools:",       "pacing:",        "latency:",        "min-rate:",
		"max-rate:",     "trim:",          "schedule:",       "filesystems:",
		"min:",          "devices:",       "urgent:",         "below:",
		"until:",        "staging:",       "undo:",           "history:",
		"limits:",       "jobs-per-user:", "names-per-user:", "history-jobs:",
		"history-size:", "protect:",       "policies:",       "windows:",
		"fleet:"
	};
	_cleanup_free_ char *text = uncommented(), *shipped = NULL;
	struct config *c;

	(void)config_dir_make();
	c = load_good(text);
	assert_defaults(c);
	config_free(c);
	for (size_t i = 0; i < ELEMENTSOF(keys); i++) {
		const char *at = strstr(text, keys[i]);

		while (at && at != text && at[-1] != '\n' && strncmp(at - 3, "\n  ", 3) != 0)
			at = strstr(at + 1, keys[i]);
		ck_assert_msg(at != NULL, "%s is not in the shipped file", keys[i]);
	}
	/* As it is shipped it says nothing. */
	ck_assert_int_gt(fd_read_file(CONF "/reclaimd.yaml", MiB(1), &shipped), 0);
	c = load_good(shipped);
	assert_defaults(c);
	config_free(c);
	config_dir_remove();
}
END_TEST

START_TEST(fleets_are_read)
{
	struct heard h;
	struct config *c = NULL;
	char name[FLEET_NAME_SIZE];

	(void)config_dir_make();
	c = load_good("fleet:\n  database: service=reclaimd\n  name: rack7.a-1\n"
		      "  filesystems:\n    /mnt//scratch/: scratch\n    /: root\n");
	ck_assert_str_eq(c->fleet_database, "service=reclaimd");
	ck_assert_uint_eq(c->fleet_database_place.line, 2);
	ck_assert_uint_eq(c->n_fleet_filesystems, 2);
	ck_assert_str_eq(c->fleet_filesystems[0].path, "/mnt/scratch");
	ck_assert_str_eq(c->fleet_filesystems[0].name, "scratch");
	ck_assert_uint_eq(c->fleet_filesystems[0].place.line, 5);
	ck_assert_str_eq(c->fleet_filesystems[1].path, "/");
	ck_assert_int_eq(config_fleet_name(c, name), 0);
	ck_assert_str_eq(name, "rack7.a-1");
	ck_assert_str_eq(config_fleet_uid_space(c), "default");
	config_free(c);
	c = load_good("fleet: {database: x, uid-space: ldap.one, filesystems: {/: root}}\n");
	ck_assert_str_eq(config_fleet_uid_space(c), "ldap.one");
	config_free(c);
	c = load_good("fleet: {database: x, filesystems: {/: root, /a: {name: a}, "
		      "/b: {max-rate: 200MiB/s, name: b}}}\n");
	ck_assert_str_eq(c->fleet_filesystems[1].name, "a");
	ck_assert_uint_eq(c->fleet_filesystems[0].rate_max, UINT64_MAX);
	ck_assert_uint_eq(c->fleet_filesystems[1].rate_max, UINT64_MAX);
	ck_assert_str_eq(c->fleet_filesystems[2].path, "/b");
	ck_assert_str_eq(c->fleet_filesystems[2].name, "b");
	ck_assert_uint_eq(c->fleet_filesystems[2].rate_max, MiB(200));
	config_free(c);
	/* What is all commented out is no fleet. */
	c = load_good("fleet:\n");
	ck_assert_ptr_null(c->fleet_database);
	config_free(c);
	/* A password can be used; but a person is told. */
	ck_assert_int_eq(
		load_bytes(&c, "fleet: {database: password=x, filesystems: {/a: a}}", 51, &h), 0);
	ck_assert_uint_eq(h.n_warnings, 1);
	ck_assert_msg(strstr(h.text, "expected passfile=, the path of a file"), "%s", h.text);
	config_free(c);
	config_dir_remove();
}
END_TEST

START_TEST(trims_are_read)
{
	struct config *c;

	(void)config_dir_make();
	c = load_good("trim:\n  schedule: Sun 03:00\n  filesystems: [/srv//, /]\n  min: 1M\n");
	ck_assert_str_eq(c->trim_schedule, "Sun 03:00");
	ck_assert_uint_eq(c->trim_schedule_place.line, 2);
	ck_assert_uint_eq(c->trim_limits.min_bytes, MiB(1));
	ck_assert_uint_eq(config_trims(c, "/")->min_bytes, MiB(1));
	ck_assert_ptr_null(config_trims(c, "/home"));
	ck_assert(config_trims_together(c));
	config_free(c);
	c = load_good("trim: {schedule: off, filesystems: all, min: 0}\n");
	ck_assert_ptr_null(c->trim_schedule);
	ck_assert_uint_eq(c->trim_limits.min_bytes, 0);
	ck_assert_ptr_eq(config_trims(c, "/home"), &c->trim_limits);
	ck_assert(!config_trims_together(c));
	config_free(c);
	config_dir_remove();
}
END_TEST

/* What one filesystem does not say is as for all, wherever in the file that is. */
START_TEST(trims_of_single_filesystems_are_read)
{
	struct config *c;

	(void)config_dir_make();
	c = load_good("trim:\n  filesystems:\n    /srv/: {schedule: daily}\n    /: {}\n"
		      "    /old: {schedule: off, min: 0}\n  schedule: weekly\n  min: 1M\n");
	ck_assert_uint_eq(c->n_trims, 3);
	ck_assert_str_eq(c->trims[0].mount, "/srv");
	ck_assert_str_eq(c->trims[0].schedule, "daily");
	ck_assert_uint_eq(c->trims[0].schedule_place.line, 3);
	ck_assert_uint_eq(config_trims(c, "/srv")->min_bytes, MiB(1));
	ck_assert(!config_trim_is_apart(&c->trims[1]));
	ck_assert_uint_eq(config_trims(c, "/")->min_bytes, MiB(1));
	ck_assert(config_trim_is_apart(&c->trims[2]));
	ck_assert_ptr_null(c->trims[2].schedule);
	ck_assert_uint_eq(config_trims(c, "/old")->min_bytes, 0);
	ck_assert_ptr_null(config_trims(c, "/home"));
	ck_assert(config_trims_together(c));
	config_free(c);
	c = load_good("trim: {schedule: weekly, filesystems: {/: {schedule: off}}}\n");
	ck_assert(!config_trims_together(c));
	config_free(c);
	config_dir_remove();
}
END_TEST

/* As systemd-escape --path has them. */
START_TEST(timers_of_filesystems_have_the_names_of_systemd)
{
	static const struct {
		const char *mount, *timer;
	} names[] = {
		{ "/", "reclaimd-trim-scheduled@-.timer" },
		{ "/srv/data", "reclaimd-trim-scheduled@srv-data.timer" },
		{ "/.a.b/.c", "reclaimd-trim-scheduled@\\x2ea.b-.c.timer" },
		{ "/a-b %\xc3\xa4", "reclaimd-trim-scheduled@a\\x2db\\x20\\x25\\xc3\\xa4.timer" },
	};
	char name[CONFIG_TRIM_TIMER_MOST], longest[CONFIG_TRIM_TIMER_MOST] = "/";

	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		ck_assert_int_eq(config_trim_timer(name, names[i].mount), 0);
		ck_assert_str_eq(name, names[i].timer);
	}
	memset(longest + 1, '-', sizeof(longest) - 2);
	ck_assert_int_eq(config_trim_timer(name, longest), -ENAMETOOLONG);
	longest[50] = '\0';
	ck_assert_int_eq(config_trim_timer(name, longest), 0);
}
END_TEST

START_TEST(slips_are_recognised)
{
	ck_assert_uint_eq(slips_between("latncy", "latency"), 1);
	ck_assert_uint_eq(slips_between("latnecy", "latency"), 1);
	ck_assert_uint_eq(slips_between("unod", "undo"), 1);
	ck_assert_uint_eq(slips_between("spool", "spools"), 1);
	ck_assert_uint_eq(slips_between("resore", "resume"), 2);
	ck_assert_uint_eq(slips_between("resore", "restore"), 1);
	ck_assert_uint_eq(slips_between("x", "undo"), SIZE_MAX);
	ck_assert_uint_eq(slips_between("below", "until"), SIZE_MAX);
	ck_assert_uint_eq(slips_between("pppppppppppppppppppppppppppppppppppppppp", "pacing"),
			  SIZE_MAX);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { nothing_is_a_configuration,
				 every_key_is_read,
				 every_key_of_a_policy_is_read,
				 several_paths_have_one_base,
				 ages_are_a_word_or_a_list,
				 what_is_odd_is_told,
				 later_files_go_over_earlier_ones,
				 errors_of_all_files_are_told,
				 files_together_can_be_wrong,
				 the_shipped_file_has_the_defaults,
				 trims_are_read,
				 trims_of_single_filesystems_are_read,
				 timers_of_filesystems_have_the_names_of_systemd,
				 fleets_are_read,
				 slips_are_recognised };

	return run_case("config", tests, ELEMENTSOF(tests));
}
