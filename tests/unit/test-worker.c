/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Workers as reclaimd uses them: real processes, as root and as somebody without rights. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"
#include "util/fd.h"
#include "util/macros.h"
#include "worker-fixture.h"

#define NOBODY 65534

static struct fixture f;

static void setup(void)
{
	fixture_setup(&f, NOBODY);
	fixture_start(&f, -1);
}

static void teardown(void)
{
	fixture_teardown(&f);
}

/* What was looked at last, as items of a run in staging. */
static size_t staged_items(struct run_item *items, char names[][24])
{
	size_t n = f.seen.entries;

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(names[i], 24, "%zu", i + 1);
		items[i] = (struct run_item){ i + 1, names[i], f.seen.ids[i] };
	}
	return n;
}

START_TEST(look_stage_run)
{
	struct run_item items[8];
	char names[8][24];
	_cleanup_close_ int src = fixture_mkdir(&f, "src", 0700);
	_cleanup_close_ int staging = fixture_mkdir(&f, "staging", 0700), job = -1;
	char path[128];
	size_t n;

	(void)snprintf(path, sizeof(path), "%s/src", f.dir);
	tree_make(path, "a d/ d/x d/y l>a");
	(void)snprintf(path, sizeof(path), "%s/src/d", f.dir);
	ck_assert_int_eq(chown(path, NOBODY, NOBODY), 0);
	ck_assert_int_eq(fixture_look_names(&f, "src", "a d l", false), 0);
	ck_assert_uint_eq(f.seen.looked.names, 3);
	ck_assert_uint_eq(f.seen.dirs, 1);
	n = staged_items(items, names);
	ck_assert_int_eq(fixture_stage(&f, staging, "job"), 0);
	ck_assert_uint_eq(f.seen.staged, 3);
	ck_assert_uint_eq(f.seen.ranges, 1);
	ck_assert(!fixture_has(&f, "src/a"));
	ck_assert(fixture_has(&f, "staging/job/2/x"));
	job = fixture_open(&f, "staging/job");
	fixture_start(&f, staging);
	ck_assert_int_eq(fixture_run(&f, job, items, n), 0);
	ck_assert_uint_eq(f.seen.result.entries, 5);
	ck_assert_uint_eq(f.seen.kept, 0);
	ck_assert_uint_eq(f.seen.problems, 0);
	ck_assert_uint_eq(f.seen.result.errors, 0);
	ck_assert(!fixture_has(&f, "staging/job/2"));
	ck_assert_int_ge(worker_fence(f.worker), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker");
	TCase *tc = tcase_create("worker");
	SRunner *sr;
	int failed;

	if (geteuid() != 0) {
		(void)puts("skipped: only root can start workers of somebody else");
		return 77;
	}
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, look_stage_run);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
