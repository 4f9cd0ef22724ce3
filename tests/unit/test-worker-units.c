/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Units of a job: what a deleter gives away, and what it finds by the way that it is told. Whatever
 * is in that way, nothing but the unit itself is touched. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"
#include "base/fd.h"
#include "base/macros.h"
#include "worker-fixture.h"

#define UNITS_MOST 16

static struct fixture f;
static struct {
	char path[PATH_MAX];
	struct run_unit unit;
	char names[PROTOCOL_GIVEN][32];
	struct run_item items[PROTOCOL_GIVEN];
	size_t n;
} given[UNITS_MOST];
static size_t n_given;
static int kept_error;

static int chown_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return lchown(path, NOBODY, NOBODY);
}

/* All in a directory becomes the submitter's. */
static void give_to_submitter(const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", f.dir, name);
	ck_assert_int_eq(nftw(path, chown_one, 16, FTW_PHYS), 0);
}

/* A job with one tree, in which each of some directories has a file; and canaries beside it. */
static int job_make(void)
{
	int fd = fixture_mkdir(&f, "job", 0700);

	tree_make(f.dir, "job/1/ job/1/a/ job/1/a/d/ job/1/a/d/x job/1/a/e/ job/1/a/e/x job/1/b/ "
			 "job/1/b/canary out/ out/d/ out/d/x out/d/canary");
	give_to_submitter("job");
	give_to_submitter("out");
	return fd;
}

static bool canaries_live(void)
{
	return fixture_has(&f, "job/1/b/canary") && fixture_has(&f, "out/d/canary") &&
	       fixture_has(&f, "out/d/x");
}

static struct lasting_identity identity_here(const char *name)
{
	_cleanup_close_ int fd = -1;
	struct lasting_identity id;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", f.dir, name);
	fd = open(path, O_PATH | O_NOFOLLOW);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(lasting_at(fd, "", &id), 0);
	return id;
}

/* As another host knows it. */
static struct lasting_identity identity(const char *name)
{
	struct lasting_identity id = identity_here(name);

	id.fsid = 0;
	return id;
}

static void on_problem(const struct problem_record *p, void *userdata)
{
	(void)p;
	(void)userdata;
	f.seen.problems++;
}

static void on_kept(uint64_t seq, int error, void *userdata)
{
	(void)seq;
	(void)userdata;
	f.seen.kept++;
	kept_error = error;
}

static void on_ran(int r, const struct run_result *result, void *userdata)
{
	(void)userdata;
	ck_assert(!f.seen.answered);
	f.seen.answered = true;
	f.seen.r = r;
	if (result)
		f.seen.result = *result;
}

static void on_given(const struct given_unit *u, void *userdata)
{
	(void)userdata;
	ck_assert_uint_lt(n_given, UNITS_MOST);
	(void)snprintf(given[n_given].path, PATH_MAX, "%s", u->unit.path);
	given[n_given].unit = u->unit;
	given[n_given].unit.path = given[n_given].path;
	given[n_given].n = u->n;
	for (size_t i = 0; i < u->n; i++) {
		(void)snprintf(given[n_given].names[i], 32, "%s", u->names[i].name);
		given[n_given].items[i] =
			(struct run_item){ i + 1, given[n_given].names[i], u->names[i].id };
	}
	n_given++;
}

/* A run of a unit, or of names in the job's directory itself, which gives if there is demand. */
static int run(int job_fd, const struct run_unit *unit, const struct run_item *items, size_t n,
	       unsigned demand)
{
	const struct run_callbacks cb = { .problem = on_problem,
					  .kept = on_kept,
					  .ran = on_ran,
					  .given = demand > 0 ? on_given : NULL,
					  .unit = unit };

	f.seen = (struct seen){ .fd = -1 };
	kept_error = 0;
	ck_assert_int_ge(worker_run(f.worker, job_fd, NULL, 0, "/shown", items, n, &cb, &f), 0);
	if (demand > 0)
		worker_demand(f.worker, demand);
	fixture_wait(&f);
	return f.seen.r;
}

/* The two directories of the tree, as a unit. */
static int run_names(int job_fd, const char *path, const struct lasting_identity *id)
{
	const struct run_unit unit = { .path = path, .id = *id };
	const struct run_item items[] = { { 1, "d", identity("job/1/a/d") },
					  { 2, "e", identity("job/1/a/e") } };

	return run(job_fd, &unit, items, 2, 0);
}

START_TEST(names_of_a_unit_go)
{
	_cleanup_close_ int job = job_make();
	struct lasting_identity id = identity("job/1/a");

	fixture_start(&f, job);
	ck_assert_int_eq(run_names(job, "1/a", &id), 0);
	ck_assert_uint_eq(f.seen.result.entries, 4);
	ck_assert_uint_eq(f.seen.kept, 0);
	ck_assert(fixture_has(&f, "job/1/a") && !fixture_has(&f, "job/1/a/d"));
	ck_assert(canaries_live());
}
END_TEST

START_TEST(names_of_the_jobs_directory_go)
{
	_cleanup_close_ int job = job_make();
	const struct run_unit unit = { .path = "", .id = identity("job") };
	const struct run_item item = { 1, "1", identity("job/1") };

	fixture_start(&f, job);
	ck_assert_int_eq(run(job, &unit, &item, 1, 0), 0);
	ck_assert_uint_eq(f.seen.result.entries, 8);
	ck_assert(!fixture_has(&f, "job/1") && fixture_has(&f, "out/d/canary"));
}
END_TEST

START_TEST(another_directory_is_left_alone)
{
	_cleanup_close_ int job = job_make();
	struct lasting_identity id = identity("job/1/a");
	char from[128], to[128];

	fixture_start(&f, job);
	ck_assert_int_eq(run_names(job, "1/b", &id), -ESTALE);
	id.ino++;
	ck_assert_int_eq(run_names(job, "1/a", &id), -ESTALE);
	id.ino--;
	id.btime_nsec++;
	ck_assert_int_eq(run_names(job, "1/a", &id), -ESTALE);
	id.btime_nsec--;
	id.fsid = 12345;
	ck_assert_int_eq(run_names(job, "1/a", &id), -ESTALE);
	/* Names, too, are only those that were given. */
	id.fsid = 0;
	(void)snprintf(from, sizeof(from), "%s/out/d", f.dir);
	(void)snprintf(to, sizeof(to), "%s/job/1/a/e", f.dir);
	{
		const struct run_unit unit = { .path = "1/a", .id = id };
		const struct run_item item = { 1, "e", identity("job/1/a/e") };

		ck_assert_int_eq(renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE), 0);
		ck_assert_int_eq(run(job, &unit, &item, 1, 0), 0);
	}
	ck_assert_uint_eq(f.seen.result.skipped, 1);
	ck_assert_uint_eq(f.seen.result.entries, 0);
	/* Nor is it looked at again to be told of: its owner finds it. */
	ck_assert_uint_eq(f.seen.kept, 0);
	ck_assert(fixture_has(&f, "job/1/a/e/canary") && fixture_has(&f, "job/1/a/d/x"));
}
END_TEST

START_TEST(no_symbolic_link_is_followed)
{
	_cleanup_close_ int job = job_make();
	struct lasting_identity id = identity("out");
	const struct run_item item = { 1, "d", identity("out/d") };
	const char *const paths[] = { "link", "1/link", "link/d" };

	link_make(f.dir, "job/link", "../out");
	link_make(f.dir, "job/1/link", "../../out");
	fixture_start(&f, job);
	for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
		const struct run_unit unit = { .path = paths[i], .id = id };

		ck_assert_int_lt(run(job, &unit, &item, 1, 0), 0);
	}
	ck_assert(canaries_live());
}
END_TEST

START_TEST(no_mount_is_crossed)
{
	_cleanup_close_ int job = job_make();
	struct lasting_identity id = identity("out");
	const struct run_unit unit = { .path = "1/b", .id = id };
	const struct run_item item = { 1, "d", identity("out/d") };
	char from[128], to[128];

	(void)snprintf(from, sizeof(from), "%s/out", f.dir);
	(void)snprintf(to, sizeof(to), "%s/job/1/b", f.dir);
	ck_assert_int_eq(mount(from, to, NULL, MS_BIND, NULL), 0);
	fixture_start(&f, job);
	ck_assert_int_eq(run(job, &unit, &item, 1, 0), -EXDEV);
	ck_assert_int_eq(umount2(to, MNT_DETACH), 0);
	ck_assert(canaries_live());
}
END_TEST

START_TEST(the_way_is_the_submitters)
{
	_cleanup_close_ int job = job_make();
	struct lasting_identity id = identity("job/1/a");
	char path[128];

	fixture_start(&f, job);
	(void)snprintf(path, sizeof(path), "%s/job/1", f.dir);
	ck_assert_int_eq(chown(path, 0, 0), 0);
	ck_assert_int_eq(chmod(path, 0700), 0);
	ck_assert_int_eq(run_names(job, "1/a", &id), -EACCES);
	ck_assert(fixture_has(&f, "job/1/a/d/x") && canaries_live());
}
END_TEST

START_TEST(only_components_are_a_way)
{
	_cleanup_close_ int job = job_make();
	struct lasting_identity id = identity("job/1/a");
	char long_name[300], long_path[2 * PATH_MAX] = "1";
	const char *const paths[] = { "..",   "../out", "1/../1/a", "1/./a",   "/1/a",   "1/a/",
				      "1//a", ".",      "/",        long_name, long_path };

	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	while (strlen(long_path) < PATH_MAX)
		(void)strcat(long_path, "/1");
	for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
		fixture_start(&f, job);
		ck_assert_int_eq(run_names(job, paths[i], &id), -EPIPE);
	}
	ck_assert(fixture_has(&f, "job/1/a/d/x") && canaries_live());
}
END_TEST

START_TEST(a_slice_takes_its_names_only)
{
	_cleanup_close_ int job = job_make();
	struct run_unit unit = { .path = "1/a/d", .id = identity("job/1/a/d"), .slices = 2 };

	tree_make(f.dir, "job/1/a/d/y job/1/a/d/sub/ job/1/a/d/sub/x");
	give_to_submitter("job");
	fixture_start(&f, job);
	ck_assert_int_eq(run(job, &unit, NULL, 0, 0), 0);
	ck_assert_uint_eq(f.seen.kept, 0);
	/* FNV-1a of "x" and "y", folded, differ in the lowest bit. */
	ck_assert_int_eq(fixture_has(&f, "job/1/a/d/x") + fixture_has(&f, "job/1/a/d/y"), 1);
	unit.slice = 1;
	ck_assert_int_eq(run(job, &unit, NULL, 0, 0), 0);
	ck_assert(!fixture_has(&f, "job/1/a/d/x") && !fixture_has(&f, "job/1/a/d/y"));
	/* Subdirectories are those of the host that has cut the directory. */
	ck_assert(fixture_has(&f, "job/1/a/d/sub/x") && fixture_has(&f, "job/1/a/e/x"));
	ck_assert(canaries_live());
}
END_TEST

START_TEST(slices_that_make_no_sense)
{
	_cleanup_close_ int job = job_make();
	const struct run_item item = { 1, "d", identity("job/1/a/d") };
	const struct run_unit bad[] = {
		{ .path = "1/a", .slice = 2, .slices = 2 },
		{ .path = "1/a", .slices = 1 },
		{ .path = "1/a", .slices = 65536 },
		{ .path = "1/a", .slice = 1 },
		{ .path = "", .slices = 2 },
		{ .path = "1/a", .slices = 2 }, /* with names */
	};

	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		struct run_unit unit = bad[i];

		unit.id = identity(*unit.path ? "job/1/a" : "job");
		fixture_start(&f, job);
		ck_assert_int_eq(run(job, &unit, &item, i + 1 == ELEMENTSOF(bad), 0), -EPIPE);
	}
	ck_assert(fixture_has(&f, "job/1/a/d/x") && fixture_has(&f, "job/1/a/e/x"));
}
END_TEST

#define FILES 3000

START_TEST(what_is_given_is_told)
{
	_cleanup_close_ int job = job_make();
	struct run_item item = { 1, "1", identity_here("job/1") };
	char name[64];
	uint64_t entries, beside = 8;

	fixture_start(&f, job);
	n_given = 0;
	/* The run may be over before its worker has read what other hosts would take. */
	for (int round = 0; round < 50 && n_given == 0; round++) {
		if (round > 0) {
			tree_make(f.dir, "job/1/");
			beside = 1;
		}
		tree_make(f.dir, "job/1/flat/");
		for (int i = 0; i < FILES; i++) {
			(void)snprintf(name, sizeof(name), "job/1/flat/%d", i);
			tree_make(f.dir, name);
		}
		give_to_submitter("job");
		item.id = identity_here("job/1");
		ck_assert_int_eq(run(job, NULL, &item, 1, 3), 0);
	}
	ck_assert_uint_ge(n_given, 1);
	ck_assert_uint_eq(f.seen.result.given, n_given);
	ck_assert_uint_eq(f.seen.result.errors, 0);
	ck_assert_uint_eq(f.seen.problems, 0);
	ck_assert_uint_eq(f.seen.kept, 1);
	ck_assert_int_eq(kept_error, -EINPROGRESS);
	entries = f.seen.result.entries;
	for (size_t i = 0; i < n_given; i++) {
		ck_assert_str_eq(given[i].path, "1/flat");
		ck_assert_uint_eq(given[i].unit.id.fsid, 0);
		ck_assert_int_eq(run(job, &given[i].unit, given[i].items, given[i].n, 0), 0);
		ck_assert_uint_eq(f.seen.kept, 0);
		entries += f.seen.result.entries;
	}
	/* All that is left are the directories, and what is beside them. */
	ck_assert_int_eq(run(job, NULL, &item, 1, 0), 0);
	ck_assert_uint_eq(f.seen.kept, 0);
	ck_assert_uint_eq(entries + f.seen.result.entries, FILES + 1 + beside);
	ck_assert(!fixture_has(&f, "job/1") && fixture_has(&f, "out/d/canary"));
}
END_TEST

/* Told so by the worker itself: this process may have forgotten it, or be stopped. */
START_TEST(a_run_whose_time_is_over_stops_by_itself)
{
	_cleanup_close_ int job = job_make();
	const struct run_item item = { 1, "1", identity_here("job/1") };
	struct run_callbacks cb = {
		.problem = on_problem, .kept = on_kept, .ran = on_ran, .until_usec = boot_usec()
	};

	fixture_start(&f, job);
	for (int later = 0; later < 2; later++) {
		f.seen = (struct seen){ .fd = -1 };
		ck_assert_int_ge(worker_run(f.worker, job, NULL, 0, "/shown", &item, 1, &cb, &f),
				 0);
		fixture_wait(&f);
		ck_assert_int_eq(f.seen.r, 0);
		ck_assert(f.seen.result.cancelled == !later);
		ck_assert_uint_eq(f.seen.kept, !later);
		ck_assert_int_eq(kept_error, later ? 0 : -ECANCELED);
		ck_assert(fixture_has(&f, "job/1/b/canary") == !later);
		cb.until_usec = boot_usec() + 3600 * USEC_PER_SEC;
		kept_error = 0;
	}
}
END_TEST

/* Of a run that has no end, or is another's, nothing is put off. */
START_TEST(the_end_of_a_run_is_put_off)
{
	_cleanup_close_ int job = job_make();
	const struct run_item item = { 1, "1", identity_here("job/1") };
	struct run_callbacks cb = { .problem = on_problem, .kept = on_kept, .ran = on_ran };
	int other;

	fixture_start(&f, job);
	worker_until(f.worker, &f, 1);
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(worker_run(f.worker, job, NULL, 0, "/shown", &item, 1, &cb, &f), 0);
	worker_until(f.worker, &f, 1);
	fixture_wait(&f);
	ck_assert(!f.seen.result.cancelled && !fixture_has(&f, "job/1"));
	tree_make(f.dir, "job/1/ job/1/x");
	give_to_submitter("job");
	cb.until_usec = boot_usec() + 3600 * USEC_PER_SEC;
	f.seen = (struct seen){ .fd = -1 };
	{
		const struct run_item again = { 1, "1", identity_here("job/1") };

		ck_assert_int_ge(worker_run(f.worker, job, NULL, 0, "/shown", &again, 1, &cb, &f),
				 0);
	}
	worker_until(f.worker, &other, 1);
	fixture_wait(&f);
	ck_assert(!f.seen.result.cancelled && !fixture_has(&f, "job/1"));
}
END_TEST

START_TEST(a_run_that_does_not_give_hears_of_no_demand)
{
	_cleanup_close_ int job = job_make();
	const struct run_item item = { 1, "1", identity_here("job/1") };
	const struct run_callbacks cb = { .problem = on_problem, .kept = on_kept, .ran = on_ran };

	fixture_start(&f, job);
	worker_demand(f.worker, 3);
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(worker_run(f.worker, job, NULL, 0, "/shown", &item, 1, &cb, &f), 0);
	worker_demand(f.worker, 3);
	fixture_wait(&f);
	ck_assert_int_eq(f.seen.r, 0);
	ck_assert_uint_eq(f.seen.result.given, 0);
	worker_demand(f.worker, 3);
	ck_assert(!fixture_has(&f, "job/1"));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		names_of_a_unit_go,
		names_of_the_jobs_directory_go,
		another_directory_is_left_alone,
		no_symbolic_link_is_followed,
		no_mount_is_crossed,
		the_way_is_the_submitters,
		only_components_are_a_way,
		a_slice_takes_its_names_only,
		slices_that_make_no_sense,
		what_is_given_is_told,
		a_run_whose_time_is_over_stops_by_itself,
		the_end_of_a_run_is_put_off,
		a_run_that_does_not_give_hears_of_no_demand,
	};

	return fixture_run_case("worker-units", &f, tests, ELEMENTSOF(tests));
}
