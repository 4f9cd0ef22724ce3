/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each allocation fails in turn, alone or with those that come after it: what has been begun ends
 * with an error, nothing is lost on the way, and the next attempt goes well. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acceptance.h"
#include "config/config.h"
#include "engine/engine.h"
#include "failing.h"
#include "policy/pattern.h"
#include "store-support.h"
#include "support.h"
#include "base/macros.h"

#define INSTEAD(...) FAILING(NULL, ENOMEM, __VA_ARGS__)

INSTEAD(void *, malloc, (size_t n), n)
INSTEAD(void *, calloc, (size_t n, size_t size), n, size)
INSTEAD(void *, realloc, (void *p, size_t n), p, n)
INSTEAD(void *, reallocarray, (void *p, size_t n, size_t size), p, n, size)
INSTEAD(char *, strdup, (const char *s), s)
INSTEAD(char *, strndup, (const char *s, size_t n), s, n)
FAILING(REG_ESPACE, ENOMEM, int, regcomp, (regex_t * re, const char *s, int flags), re, s, flags)
FAILING(REG_ESPACE, ENOMEM, int, regexec,
	(const regex_t *re, const char *s, size_t n, regmatch_t *m, int flags), re, s, n, m, flags)

/* Until one goes through without having met the failure: one alone, and a row of them. Not for
 * ever: a lane that has no memory for its queue waits until there is some. */
static void each(bool (*attempt)(unsigned nth, unsigned n_more, void *userdata), void *userdata)
{
	for (unsigned n_more = 0; n_more <= 8; n_more += 8)
		for (unsigned nth = 1; attempt(nth, n_more, userdata); nth++)
			ck_assert_uint_lt(nth, 10000);
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void on_problem(const struct engine_problem *p, void *userdata)
{
	if (!p->path || !p->what)
		abort(); /* check would allocate */
	++*(unsigned *)userdata;
}

/* Returns what the engine does; *ret_told, whether it counts anything that is left. */
static int deleted(struct engine_options *o, struct root_group *g, bool *ret_told)
{
	struct engine_progress p = { 0 };
	struct engine *e = NULL;
	int r = engine_new(&e, o, g->dirfd);

	if (r >= 0)
		r = engine_add(e, g);
	if (r >= 0)
		r = engine_run(e);
	if (r >= 0)
		engine_result(e, &p);
	*ret_told = p.stats.errors > 0;
	engine_free(e);
	return r;
}

static bool delete_with(unsigned nth, unsigned n_more, void *userdata)
{
	struct engine_options o = *(struct engine_options *)userdata;
	struct root_group g = { .accepted = true };
	unsigned problems = 0;
	char dir[PATH_MAX];
	bool met, told;
	int r;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "t/ t/a t/b/ t/b/c t/b/d/ t/b/d/e/ t/b/d/e/f t/g/ t/g/h t/l>a keep file");
	g.dir = dir;
	g.dirfd = open(dir, O_PATH | O_CLOEXEC);
	ck_assert_int_eq(dirlist_add(&g.names, "t", 0, 0), 0);
	ck_assert_int_eq(dirlist_add(&g.names, "file", 0, 0), 0);
	o.problem = on_problem;
	o.userdata = &problems;
	failing_arm(nth, n_more);
	r = deleted(&o, &g, &told);
	met = failing_disarm();
	/* Without memory there is no ring. */
	ck_assert_msg(r == 0 || (met && (r == -ENOMEM || r == -EOPNOTSUPP)), "%u: %d", nth, r);
	/* What is left is counted, and told of where there is memory for its name. */
	ck_assert_msg(tree_count(dir) == 1 || r < 0 || told, "%u", nth);
	ck_assert(problems == 0 || told);
	ck_assert_uint_ge(tree_count(dir), 1);
	dirlist_done(&g.names);
	(void)close(g.dirfd);
	scratch_remove(dir);
	return met;
}

START_TEST(test_fault_14_while_deleting)
{
	struct engine_options threads = { .fixed_backend = true, .lanes = 2 };
	struct engine_options one = { .fixed_backend = true, .lanes = 1, .weigh = true };

	each(delete_with, &threads);
	each(delete_with, &one);
}
END_TEST

START_TEST(test_fault_14_while_deleting_with_a_ring)
{
	struct engine_options ring = { .fixed_backend = true,
				       .backend = BACKEND_URING,
				       .lanes = 1 };
	struct engine *e = NULL;
	int fd = open("/tmp", O_PATH | O_CLOEXEC), r = engine_new(&e, &ring, fd);

	(void)close(fd);
	engine_free(e);
	if (r == 0)
		each(delete_with, &ring);
}
END_TEST

/* ---- accepting ------------------------------------------------------------------------------- */

static bool accept_with(unsigned nth, unsigned n_more, void *userdata)
{
	struct acceptance *a = userdata;
	const char *const paths[] = { a->kept, a->inside, a->beside };
	bool met = false;
	int r;

	for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
		failing_arm(nth, n_more);
		r = acceptance_path(a, paths[i]);
		met |= failing_met();
		ck_assert_msg(failing_disarm() || r == (paths[i] == a->beside ? 0 : -EPERM),
			      "%u: %d", nth, r);
	}
	failing_arm(nth, n_more);
	r = acceptance_list(a);
	met |= failing_met();
	ck_assert_msg(failing_disarm() || r == 0, "%u: %d", nth, r);
	return met;
}

START_TEST(test_fault_14_while_accepting)
{
	struct acceptance a;

	acceptance_make(&a);
	each(accept_with, &a);
	acceptance_remove(&a);
}
END_TEST

/* ---- the configuration ----------------------------------------------------------------------- */

static const char configuration[] =
	"spools: {/b/.trash: {settle: 10s, undo: 1h}}\n"
	"pacing: {latency: 5ms, devices: {/b: {latency: auto}}}\n"
	"protect: [/srv/keep, /srv/other]\n"
	"policies:\n"
	"  p: {path: /b, match: [\"*.gz\", \"**/x\"], exclude: [y], keep: {last: 3, daily: 7},\n"
	"      max-age: 90d, time: \"name:%Y-%m-%d\", group-by: \"^(a)-\", schedule: daily}\n";

static const char *const protected[] = { "/srv/keep", "/srv/other", "/srv/third", NULL };

static void complain(const struct config_error *e, void *userdata)
{
	(void)userdata;
	if (!e->text)
		abort();
}

static bool load_with(unsigned nth, unsigned n_more, void *userdata)
{
	struct config *c = NULL;
	bool met;
	int r;

	failing_arm(nth, n_more);
	r = config_load(&c, NULL, userdata, complain, NULL);
	met = failing_disarm();
	ck_assert_msg(r == 0 || (met && (r == -ENOMEM || r == -EBADMSG)), "%u: %d", nth, r);
	ck_assert((r == 0) == (c != NULL));
	/* What is read is whole: nothing loses its protection. */
	for (size_t i = 0; c && i < ELEMENTSOF(protected); i++)
		ck_assert_pstr_eq(c->protect[i], protected[i]);
	config_free(c);
	return met;
}

START_TEST(test_fault_14_while_reading_the_configuration)
{
	char dir[PATH_MAX];

	scratch_make(dir, sizeof(dir));
	file_make(dir, "reclaimd.yaml", configuration);
	file_make(dir, "reclaimd.d/more.yaml",
		  "spools: {/c: {}}\nprotect: [/srv/third]\nundo: 1h\n");
	file_make(dir, "reclaimd.d/wrong.yml", "not read\n");
	each(load_with, dir);
	file_make(dir, "reclaimd.d/wrong.yaml",
		  "undo: [a]\nundoo: 1\npolicies: {p: {path: ../x}}\n");
	ck_assert_int_eq(config_load(&(struct config *){ NULL }, NULL, dir, complain, NULL),
			 -EBADMSG);
	scratch_remove(dir);
}
END_TEST

/* ---- patterns -------------------------------------------------------------------------------- */

/* A class is whole or the expression is none: what is in a group decides what is deleted. */
static bool compile_with(unsigned nth, unsigned n_more, void *userdata)
{
	struct pattern *p = NULL;
	const char *why = "";
	bool met;
	int r;

	failing_arm(nth, n_more);
	r = pattern_new(&p, userdata, &why);
	met = failing_disarm();
	ck_assert_msg(r == (met ? -ENOMEM : 0), "%u: %d %s", nth, r, why);
	pattern_free(p);
	return met;
}

START_TEST(test_fault_14_while_compiling_a_pattern)
{
	char expression[] = "^([^-]+)-([[:digit:]]{2,3})(\\w|.)?";

	each(compile_with, expression);
}
END_TEST

/* ---- the store ------------------------------------------------------------------------------- */

static bool store_with(unsigned nth, unsigned n_more, void *userdata)
{
	struct state_dir *d = userdata;
	struct store *s = NULL;
	const char *why = "";
	char *aside = NULL;
	uint64_t id;
	bool met;
	int r;

	failing_arm(nth, n_more);
	r = store_open(&s, d->path, &aside, &why);
	if (r >= 0)
		r = job_make(s, "/a", 3, &id);
	if (s)
		store_close(s);
	met = failing_disarm();
	ck_assert_msg(r == 0 || (met && r == -ENOMEM), "%u: %d %s", nth, r, why);
	ck_assert_ptr_null(aside);
	s = state_open(d);
	for (uint64_t n = jobs_count(s); n > 0; n--)
		ck_assert_uint_le(entries_count(s, n), 3);
	store_close(s);
	return met;
}

START_TEST(test_fault_14_while_storing)
{
	struct state_dir d;

	state_make(&d);
	each(store_with, &d);
	state_remove(&d);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { test_fault_14_while_deleting,
				       test_fault_14_while_deleting_with_a_ring,
				       test_fault_14_while_accepting,
				       test_fault_14_while_reading_the_configuration,
				       test_fault_14_while_compiling_a_pattern,
				       test_fault_14_while_storing };

	return run_case("no-memory", tests, ELEMENTSOF(tests));
}
