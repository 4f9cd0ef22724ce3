/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimd's side of workers that make no sense: each costs its own request, and nothing else. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"
#include "base/fd.h"
#include "base/macros.h"
#include "worker-fixture.h"

static struct fixture f;

static void setup(void)
{
	fixture_setup(&f, getuid());
}

static void teardown(void)
{
	fixture_teardown(&f);
}

START_TEST(lies_end_the_worker)
{
	static const char *const lies[] = { "noise",         "unknown", "other-serial",
					    "other-request", "slash",   "welcome-again",
					    "no-dir",        "version", "descriptor",
					    "long",          "early" };
	char path[128];

	for (size_t i = 0; i < ELEMENTSOF(lies); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", f.dir, lies[i]);
		ck_assert_int_eq(symlink(HOSTILE_WORKER, path), 0);
		fixture_start_program(&f, path, -1);
		ck_assert_int_eq(fixture_look_path(&f, "x"), -EPIPE);
		fixture_wait_gone(&f);
		ck_assert_str_eq(f.seen.how, "said what makes no sense");
		ck_assert_uint_eq(f.seen.entries, 0);
		ck_assert_str_eq(f.seen.name, "");
	}
}
END_TEST

START_TEST(lies_about_staging_end_the_worker)
{
	static const char *const lies[] = { "staged-file", "staged-path", "staged-failed",
					    "staged-nowhere" };
	_cleanup_close_ int staging = fixture_mkdir(&f, "staging", 0700);
	char path[128];

	for (size_t i = 0; i < ELEMENTSOF(lies); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", f.dir, lies[i]);
		ck_assert_int_eq(symlink(HOSTILE_WORKER, path), 0);
		fixture_start_program(&f, path, -1);
		ck_assert_int_eq(fixture_stage(&f, staging, "job"), -EPIPE);
		fixture_wait_gone(&f);
		ck_assert_str_eq(f.seen.how, "said what makes no sense");
		ck_assert(!f.seen.dir_came);
	}
}
END_TEST

static void on_given(const struct given_unit *u, void *userdata)
{
	(void)u;
	(void)userdata;
	ck_abort_msg("a unit was given");
}

static void on_ran(int r, const struct run_result *result, void *userdata)
{
	(void)userdata;
	ck_assert_ptr_null(result);
	f.seen.answered = true;
	f.seen.r = r;
}

START_TEST(lies_about_units_end_the_worker)
{
	static const char *const lies[] = { "given-unasked", "given-way",  "given-slice",
					    "given-file",    "given-none", "given-empty" };
	const struct run_callbacks cb = { .ran = on_ran, .given = on_given };
	_cleanup_close_ int job = fixture_mkdir(&f, "job", 0700);
	const struct run_item item = { .seq = 1, .name = "1" };
	char path[128];

	for (size_t i = 0; i < ELEMENTSOF(lies); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", f.dir, lies[i]);
		ck_assert_int_eq(symlink(HOSTILE_WORKER, path), 0);
		fixture_start_program(&f, path, job);
		f.seen = (struct seen){ .fd = -1 };
		ck_assert_int_ge(worker_run(f.worker, job, NULL, 0, "/", &item, 1, &cb, NULL), 0);
		if (i > 0)
			worker_demand(f.worker, 1);
		fixture_wait(&f);
		ck_assert_int_eq(f.seen.r, -EPIPE);
		fixture_wait_gone(&f);
		ck_assert_str_eq(f.seen.how, "said what makes no sense");
	}
}
END_TEST

START_TEST(no_program)
{
	struct worker_options o = { .program = "/nonexistent/reclaim-worker",
				    .credentials = &f.who };

	ck_assert_int_eq(worker_new(&f.worker, f.event, &o), -ENOENT);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker-hostile");
	TCase *tc = tcase_create("worker-hostile");
	const TTest *const tests[] = { lies_end_the_worker, lies_about_staging_end_the_worker,
				       lies_about_units_end_the_worker, no_program };

	tcase_add_checked_fixture(tc, setup, teardown);
	return run_tests(s, tc, tests, ELEMENTSOF(tests));
}
