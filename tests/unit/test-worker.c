/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Workers as reclaimd uses them: real processes, as root and as a user without rights. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"
#include "base/fd.h"
#include "base/macros.h"
#include "worker-fixture.h"

static struct fixture f;

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
	ck_assert_uint_eq(f.seen.validated.names, 3);
	ck_assert_uint_eq(f.seen.dirs, 1);
	n = staged_items(items, names);
	ck_assert_int_eq(fixture_stage(&f, staging, "job"), 0);
	ck_assert(f.seen.dir_came);
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
	ck_assert_int_ge(worker_landlock_abi(f.worker), 0);
}
END_TEST

/* A name beneath the scratch directory that is root's. */
static void root_file(const char *name)
{
	file_make(f.dir, name, "root's");
}

static void root_unlink(const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", f.dir, name);
	ck_assert_int_eq(unlink(path), 0);
}

static void root_dir(const char *name, mode_t mode)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", f.dir, name);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(chmod(path, mode), 0);
}

static void refused(const char *path, const char *name)
{
	ck_assert_int_lt(fixture_look_path(&f, path), 0);
	ck_assert_str_eq(f.seen.name, name);
	ck_assert_ptr_nonnull(strstr(f.seen.text, ": "));
}

START_TEST(names_that_the_user_may_not_see_are_not_told)
{
	char there[1024];

	root_dir("secret", 0700);
	root_file("secret/name");
	refused("secret/name", "NotAuthorized");
	(void)snprintf(there, sizeof(there), "%s", f.seen.text);
	root_unlink("secret/name");
	refused("secret/name", "NotAuthorized");
	ck_assert_str_eq(f.seen.text, there);
	refused("absent", "NoSuchPath");
	/* With a descriptor of the directory in hand, too. */
	ck_assert_int_lt(fixture_look_names(&f, "secret", "name", true), 0);
	ck_assert_str_eq(f.seen.name, "NotAuthorized");
}
END_TEST

START_TEST(what_rm_would_be_refused_is_refused_at_once)
{
	_cleanup_close_ int sticky = -1;

	root_dir("closed", 0755);
	root_file("closed/name");
	refused("closed/name", "NotAuthorized");
	root_dir("sticky", 01777);
	root_file("sticky/roots");
	refused("sticky/roots", "NotAuthorized");
	root_file("sticky/mine");
	sticky = fixture_open(&f, "sticky");
	ck_assert_int_eq(fchownat(sticky, "mine", NOBODY, NOBODY, 0), 0);
	ck_assert_int_eq(fixture_look_path(&f, "sticky/mine"), 0);
	/* One of many is enough, and nothing has happened. */
	ck_assert_int_lt(fixture_look_names(&f, "sticky", "mine roots", false), 0);
	ck_assert_str_eq(f.seen.name, "NotAuthorized");
}
END_TEST

START_TEST(groups_are_the_submitters)
{
	_cleanup_close_ int team = -1;
	gid_t group = 4321;

	root_dir("team", 0775);
	root_file("team/name");
	team = fixture_open(&f, "team");
	ck_assert_int_eq(fchown(team, 0, group), 0);
	refused("team/name", "NotAuthorized");
	f.who.groups = &group;
	f.who.n_groups = 1;
	fixture_start(&f, -1);
	ck_assert_int_eq(fixture_look_path(&f, "team/name"), 0);
	f.who.n_groups = 0;
}
END_TEST

START_TEST(paths_mean_one_thing)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700);

	tree_make(f.dir, "link>d d/x dead>nowhere");
	refused("link/x", "InvalidPath");
	refused("link/", "InvalidPath");
	refused("d/x/", "InvalidPath");
	refused("d/../d/x", "InvalidPath");
	refused("d/.", "InvalidPath");
	refused("d/x/y", "InvalidPath");
	ck_assert_int_eq(fixture_look_path(&f, "link"), 0);
	ck_assert_uint_eq(f.seen.ids[0].type, S_IFLNK);
	ck_assert_int_eq(fixture_look_path(&f, "dead"), 0);
	for (size_t i = 0; i < 4; i++) {
		static const char *const bad[] = { "", ".", "..", "d/x" };

		ck_assert_int_lt(fixture_look_names(&f, "", bad[i], true), 0);
		ck_assert_str_eq(f.seen.name, "InvalidPath");
	}
	/* A descriptor of what is no directory. */
	ck_assert_int_lt(fixture_look(&f,
				      &(struct intake_group){ .dirfd = STDERR_FILENO,
							      .names_fd = -1,
							      .names = { "x", 2 } },
				      1),
			 0);
}
END_TEST

START_TEST(protected_is_protected)
{
	root_dir(".reclaim", 0711);
	root_file(".reclaim/1");
	refused(".reclaim", "Protected");
	refused(".reclaim/1", "Protected");
	f.who.uid = 0;
	fixture_start(&f, -1);
	refused("/usr", "Protected");
	refused("/usr/bin/env", "Protected");
	refused("/", "Protected");
	refused("/proc/uptime", "Protected");
	f.who.uid = NOBODY;
}
END_TEST

START_TEST(missing_names_of_lists_are_counted)
{
	tree_make(f.dir, "a b");
	ck_assert_int_eq(fixture_look_names(&f, "", "a x b y", true), 0);
	ck_assert_uint_eq(f.seen.validated.names, 2);
	ck_assert_uint_eq(f.seen.validated.missing, 2);
	ck_assert_int_eq(fixture_look_names(&f, "", "a x", false), -ENOENT);
	ck_assert_str_eq(f.seen.name, "NoSuchPath");
}
END_TEST

START_TEST(another_directory_in_its_place)
{
	_cleanup_close_ int staging = fixture_mkdir(&f, "staging", 0700);

	tree_make(f.dir, "a b c");
	ck_assert_int_eq(fixture_look_names(&f, "", "a b c", false), 0);
	root_unlink("b");
	tree_make(f.dir, "b/ b/canary");
	ck_assert_int_eq(fixture_stage(&f, staging, "job"), -ESTALE);
	ck_assert_str_eq(f.seen.name, "IdentityChanged");
	ck_assert_uint_eq(f.seen.ranges, 0);
	ck_assert(fixture_has(&f, "a") && fixture_has(&f, "b/canary") && fixture_has(&f, "c"));
	ck_assert(!fixture_has(&f, "staging/job"));
}
END_TEST

START_TEST(what_cannot_be_moved_stays)
{
	_cleanup_close_ int staging = fixture_mkdir(&f, "staging", 0700);

	/* A directory of another user: it can be removed, if it is empty, but not moved. */
	tree_make(f.dir, "a b/ c gone");
	ck_assert_int_eq(fixture_look_names(&f, "", "a b c gone", false), 0);
	root_unlink("gone");
	ck_assert_int_eq(fixture_stage(&f, staging, "job"), 0);
	ck_assert_uint_eq(f.seen.staged, 2);
	ck_assert_uint_eq(f.seen.unstaged, 2);
	ck_assert_uint_eq(f.seen.ranges, 4);
	ck_assert_int_eq(f.seen.range_error, -ENOENT);
	ck_assert(fixture_has(&f, "b"));
	ck_assert(fixture_has(&f, "staging/job/1") && fixture_has(&f, "staging/job/3"));
}
END_TEST

START_TEST(another_mount_is_crossed_by_nothing)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700), m = fixture_mkdir(&f, "m", 0700);
	_cleanup_close_ int other = -1;
	char path[128], target[128];
	struct intake_group two[2] = {
		{ .names_fd = -1, .names = { "x", 2 }, .dirfd = d },
		{ .names_fd = -1, .names = { "x", 2 } },
	};

	tree_make(f.dir, "d/x d/staging/");
	(void)snprintf(path, sizeof(path), "%s/d", f.dir);
	(void)snprintf(target, sizeof(target), "%s/m", f.dir);
	ck_assert_int_eq(mount(path, target, NULL, MS_BIND, NULL), 0);
	refused("m", "CrossesMount");
	/* The same directory, seen through two mounts. */
	other = two[1].dirfd = fixture_open(&f, "m");
	ck_assert_int_eq(fixture_look(&f, two, 2), -EXDEV);
	ck_assert_str_eq(f.seen.name, "CrossesMount");
	/* Staging that is on another one: stays. */
	ck_assert_int_eq(fixture_look_names(&f, "d", "x", false), 0);
	ck_assert_int_eq(fixture_stage(&f, other, "job"), 0);
	ck_assert_int_eq(f.seen.range_error, -EXDEV);
	ck_assert(fixture_has(&f, "d/x"));
	ck_assert_int_eq(umount2(target, MNT_DETACH), 0);
}
END_TEST

static int restore(const struct lasting_identity *dir, const struct lasting_identity *id,
		   int staging, int to_fd, const char *to_name)
{
	char path[128];
	struct restore_message m = { .job_dir = "job",
				     .seq = 1,
				     .name = "x",
				     .dir_path = path,
				     .dir_id = *dir,
				     .id = *id,
				     .to_name = to_name,
				     .staging = staging,
				     .to = to_fd,
				     .view = -1 };

	(void)snprintf(path, sizeof(path), "%s/d", f.dir);
	f.seen.answered = false;
	ck_assert_int_ge(worker_restore(f.worker, &m, fixture_done, &f), 0);
	fixture_wait(&f);
	return f.seen.r;
}

START_TEST(a_descriptor_from_another_namespace)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700), to = fixture_mkdir(&f, "to", 0700);
	_cleanup_close_ int staging = fixture_mkdir(&f, "staging", 0700), ns = -1;
	struct lasting_identity dir, id;

	tree_make(f.dir, "d/x");
	/* The worker lives in a namespace that the descriptors are not of, and which lives on. */
	ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(ns, 0);
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	fixture_start(&f, -1);
	ck_assert_int_eq(fixture_look(&f,
				      &(struct intake_group){
					      .dirfd = d, .names_fd = -1, .names = { "x", 2 } },
				      1),
			 0);
	dir = f.seen.dir_id;
	id = f.seen.ids[0];
	(void)close(staging);
	staging = fixture_open(&f, "staging");
	ck_assert_int_eq(fixture_stage(&f, staging, "job"), 0);
	ck_assert_uint_eq(f.seen.staged, 1);
	ck_assert(fixture_has(&f, "staging/job/1"));
	ck_assert_int_eq(restore(&dir, &id, staging, to, NULL), 0);
	ck_assert(fixture_has(&f, "to/x"));
}
END_TEST

static int make(uid_t uid, bool really)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/mount", f.dir);
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(worker_make_staging(f.worker,
					     &(struct make_staging_message){ .mount_path = path,
									     .uid = uid,
									     .gid = uid,
									     .make = really },
					     fixture_opened, &f),
			 0);
	fixture_wait(&f);
	fd_closep(&f.seen.fd);
	return f.seen.r;
}

static void made_is(const char *name, uid_t uid, mode_t mode)
{
	char path[128];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/mount/%s", f.dir, name);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_uid, uid);
	ck_assert_uint_eq(st.st_mode & 07777, mode);
}

START_TEST(staging_is_roots_and_the_submitters)
{
	char path[128], name[160];

	f.who.uid = f.who.gid = 0;
	fixture_start(&f, -1);
	root_dir("mount", 0777);
	ck_assert_int_eq(make(NOBODY, true), -EXDEV);
	(void)snprintf(path, sizeof(path), "%s/mount", f.dir);
	ck_assert_int_eq(mount("tmpfs", path, "tmpfs", 0, NULL), 0);
	ck_assert_int_eq(make(NOBODY, false), -ENOENT);
	ck_assert_int_eq(make(NOBODY, true), 0);
	made_is(".reclaim", 0, 0711);
	made_is(".reclaim/65534", NOBODY, 0700);
	ck_assert_int_eq(make(0, true), 0);
	made_is(".reclaim/0", 0, 0700);
	ck_assert_int_eq(make(NOBODY, false), 0);
	/* Not as it should be: not believed. */
	(void)snprintf(name, sizeof(name), "%s/.reclaim/65534", path);
	ck_assert_int_eq(chmod(name, 0750), 0);
	ck_assert_int_eq(make(NOBODY, true), -EPERM);
	ck_assert_int_eq(chmod(name, 0700), 0);
	ck_assert_int_eq(chown(name, 1, 1), 0);
	ck_assert_int_eq(make(NOBODY, true), -EPERM);
	ck_assert_int_eq(rmdir(name), 0);
	ck_assert_int_eq(symlink("/tmp", name), 0);
	ck_assert_int_eq(make(NOBODY, true), -EPERM);
	(void)snprintf(name, sizeof(name), "%s/.reclaim", path);
	ck_assert_int_eq(chmod(name, 0777), 0);
	ck_assert_int_eq(make(0, true), -EPERM);
	ck_assert_int_eq(umount2(path, 0), 0);
}
END_TEST

static void listed(const char *name, const struct lasting_identity *id, void *userdata)
{
	(void)userdata;
	f.seen.entries++;
	f.seen.ids[0] = *id;
	(void)snprintf(f.seen.names[0], sizeof(f.seen.names[0]), "%s", name);
}

START_TEST(things_are_put_back)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700), to = fixture_mkdir(&f, "to", 0700);
	_cleanup_close_ int staging = fixture_mkdir(&f, "staging", 0700);
	struct lasting_identity dir, id, other;

	tree_make(f.dir, "d/x");
	ck_assert_int_eq(fixture_look_names(&f, "d", "x", false), 0);
	dir = f.seen.dir_id;
	id = other = f.seen.ids[0];
	ck_assert_int_eq(fixture_stage(&f, staging, "job"), 0);
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(worker_list_staging(f.worker, staging, "job", listed, fixture_done, &f),
			 0);
	fixture_wait(&f);
	ck_assert_uint_eq(f.seen.entries, 1);
	ck_assert_str_eq(f.seen.names[0], "1");
	ck_assert_uint_eq(f.seen.ids[0].ino, id.ino);
	other.ino++;
	ck_assert_int_eq(restore(&dir, &other, staging, -1, NULL), -EUCLEAN);
	ck_assert_int_eq(restore(&other, &id, staging, -1, NULL), -ESTALE);
	tree_make(f.dir, "d/x");
	ck_assert_int_eq(restore(&dir, &id, staging, -1, NULL), -EEXIST);
	ck_assert_int_eq(restore(&dir, &id, staging, to, "y"), 0);
	ck_assert(fixture_has(&f, "to/y"));
	/* It is there, but not where it was. */
	ck_assert_int_eq(restore(&dir, &id, staging, to, "y"), 0);
	ck_assert_int_eq(restore(&dir, &id, staging, -1, NULL), -ENOENT);
	f.seen.answered = false;
	ck_assert_int_ge(worker_remove_staging(f.worker, staging, "job", fixture_done, &f), 0);
	fixture_wait(&f);
	ck_assert_int_eq(f.seen.r, 0);
	ck_assert(!fixture_has(&f, "staging/job"));
}
END_TEST

/* Of a user's directory, which may have any number of names. */
START_TEST(names_alone_are_listed_up_to_a_number)
{
	_cleanup_close_ int staging = fixture_mkdir(&f, "staging", 0700);

	(void)staging;
	tree_make(f.dir, "staging/job/ staging/job/a staging/job/b staging/job/c/");
	for (uint64_t most = 1; most < 5; most++) {
		f.seen = (struct seen){ .fd = -1 };
		ck_assert_int_ge(
			worker_list_names(f.worker, staging, "job", most, listed, fixture_done, &f),
			0);
		fixture_wait(&f);
		ck_assert_int_eq(f.seen.r, most < 3 ? -E2BIG : 0);
		ck_assert_uint_le(f.seen.entries, most);
		ck_assert(most < 3 || f.seen.entries == 3);
		ck_assert_uint_eq(f.seen.ids[0].ino, 0);
	}
}
END_TEST

START_TEST(directories_are_opened_as_the_submitter)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700);
	struct lasting_identity other = { .ino = 1 };
	char path[128];

	root_dir("secret", 0700);
	root_dir("secret/in", 0777);
	(void)snprintf(path, sizeof(path), "%s/secret/in", f.dir);
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(worker_open_dir(f.worker, -1, path, NULL, fixture_opened, &f), 0);
	fixture_wait(&f);
	ck_assert_int_eq(f.seen.r, -EACCES);
	f.seen = (struct seen){ .fd = -1 };
	(void)snprintf(path, sizeof(path), "%s/d", f.dir);
	ck_assert_int_ge(worker_open_dir(f.worker, -1, path, &other, fixture_opened, &f), 0);
	fixture_wait(&f);
	ck_assert_int_eq(f.seen.r, -ESTALE);
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(worker_open_dir(f.worker, -1, path, NULL, fixture_opened, &f), 0);
	fixture_wait(&f);
	ck_assert_int_eq(f.seen.r, 0);
	fd_closep(&f.seen.fd);
}
END_TEST

/* Where a filesystem has no lasting id, nothing is known to be on it. */
START_TEST(directories_are_opened_on_a_filesystem)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700);
	struct lasting_identity id;
	char path[128];

	ck_assert_int_eq(lasting_at(d, "", &id), 0);
	(void)snprintf(path, sizeof(path), "%s/d", f.dir);
	for (uint64_t other = 0; other < 2; other++) {
		f.seen = (struct seen){ .fd = -1 };
		ck_assert_int_ge(worker_open_on_filesystem(f.worker, path, id.fsid + other,
							   fixture_opened, &f),
				 0);
		fixture_wait(&f);
		ck_assert_int_eq(f.seen.r, id.fsid != 0 && other == 0 ? 0 : -ESTALE);
		fd_closep(&f.seen.fd);
	}
}
END_TEST

#define MANY 100000

START_TEST(a_hundred_thousand_names)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700);
	_cleanup_close_ int staging = fixture_mkdir(&f, "staging", 0700);
	char *names = malloc((size_t)MANY * 8), *at = names;
	struct intake_group g = { .dirfd = d, .names_fd = -1, .names = { names, 0 }, .list = true };

	for (int i = 0; i < MANY; i++)
		at += snprintf(at, 8, "%d", i) + 1;
	g.names.len = (size_t)(at - names);
	for (size_t i = 0; i < g.names.len; i += strlen(names + i) + 1)
		ck_assert_int_eq(mknodat(d, names + i, S_IFREG | 0600, 0), 0);
	ck_assert_int_eq(fixture_look(&f, &g, 1), 0);
	free(names);
	ck_assert_uint_eq(f.seen.validated.names, MANY);
	ck_assert_uint_eq(f.seen.entries, MANY);
	f.wants_no_dir = true;
	ck_assert_int_eq(fixture_stage(&f, staging, "job"), 0);
	ck_assert(!f.seen.dir_came);
	ck_assert_uint_eq(f.seen.staged, MANY);
	ck_assert_uint_eq(f.seen.ranges, 1);
}
END_TEST

START_TEST(only_who_was_accepted_is_deleted)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700), out = fixture_mkdir(&f, "out", 0700);
	struct run_item items[3] = { { .seq = 11, .name = "a" },
				     { .seq = 12, .name = "b" },
				     { .seq = 13, .name = "absent" } };

	tree_make(f.dir, "d/a d/b out/canary");
	ck_assert_int_eq(fixture_look_names(&f, "d", "a b", false), 0);
	items[0].id = f.seen.ids[0];
	items[1].id = f.seen.ids[1];
	items[1].id.ino++;
	fixture_start(&f, d);
	ck_assert_int_eq(fixture_run(&f, d, items, 3), 0);
	ck_assert_uint_eq(f.seen.result.entries, 1);
	ck_assert_uint_eq(f.seen.kept, 2);
	ck_assert_uint_eq(f.seen.problems, 1);
	ck_assert(!fixture_has(&f, "d/a") && fixture_has(&f, "d/b"));
}
END_TEST

START_TEST(what_is_gone_is_flushed)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700);
	const char *names[] = { "job", "absent" };

	tree_make(f.dir, "d/job/");
	fixture_start(&f, d);
	f.seen.answered = false;
	ck_assert_int_eq(worker_flush(f.worker, d, names, 2, fixture_done, &f), 0);
	ck_assert_int_eq(worker_flush(f.worker, d, names, 2, fixture_done, &f), -EBUSY);
	fixture_wait(&f);
	ck_assert_int_eq(f.seen.r, 0);
	/* It is one component, or nothing that could be meant. */
	names[1] = "../d";
	f.seen.answered = false;
	ck_assert_int_eq(worker_flush(f.worker, d, names, 2, fixture_done, &f), 0);
	fixture_wait_gone(&f);
	ck_assert_int_eq(f.seen.r, -EPIPE);
}
END_TEST

START_TEST(landlock_confines_the_deleter)
{
	_cleanup_close_ int d = fixture_mkdir(&f, "d", 0700), out = fixture_mkdir(&f, "out", 0700);
	struct run_item item = { .seq = 1, .name = "canary" };

	tree_make(f.dir, "out/canary");
	ck_assert_int_eq(fixture_look_names(&f, "out", "canary", false), 0);
	item.id = f.seen.ids[0];
	fixture_start(&f, d);
	ck_assert_int_eq(fixture_run(&f, out, &item, 1), 0);
	/* None only where the kernel has none. */
	ck_assert_int_eq(
		worker_landlock_abi(f.worker),
		MAX(syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION),
		    0L));
	if (worker_landlock_abi(f.worker) == 0)
		return;
	ck_assert_uint_eq(f.seen.kept, 1);
	ck_assert_int_eq(f.seen.kept_error, -EACCES);
	ck_assert(fixture_has(&f, "out/canary"));
}
END_TEST

START_TEST(swapped_right_before_the_rename)
{
	_cleanup_close_ int staging = fixture_mkdir(&f, "staging", 0700);
	_cleanup_close_ int b = -1;
	pid_t pid;

	tree_make(f.dir, "a b");
	ck_assert_int_eq(setenv("RECLAIM_GATE", "stage:b", 1), 0);
	fixture_start(&f, -1);
	ck_assert_int_eq(unsetenv("RECLAIM_GATE"), 0);
	ck_assert_int_eq(fixture_look_names(&f, "", "a b", false), 0);
	fixture_stage_begin(&f, staging, "job");
	pid = fixture_gate_wait();
	root_unlink("b");
	tree_make(f.dir, "b/ b/canary");
	b = fixture_open(&f, "b");
	ck_assert_int_eq(fchown(b, NOBODY, NOBODY), 0);
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	fixture_wait(&f);
	ck_assert_int_eq(f.seen.r, -ESTALE);
	ck_assert_uint_eq(f.seen.ranges, 0);
	ck_assert(fixture_has(&f, "a") && fixture_has(&f, "b/canary"));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		look_stage_run,
		names_that_the_user_may_not_see_are_not_told,
		what_rm_would_be_refused_is_refused_at_once,
		groups_are_the_submitters,
		paths_mean_one_thing,
		protected_is_protected,
		missing_names_of_lists_are_counted,
		another_directory_in_its_place,
		what_cannot_be_moved_stays,
		another_mount_is_crossed_by_nothing,
		a_descriptor_from_another_namespace,
		staging_is_roots_and_the_submitters,
		things_are_put_back,
		names_alone_are_listed_up_to_a_number,
		directories_are_opened_as_the_submitter,
		directories_are_opened_on_a_filesystem,
		a_hundred_thousand_names,
		only_who_was_accepted_is_deleted,
		what_is_gone_is_flushed,
		landlock_confines_the_deleter,
		swapped_right_before_the_rename,
	};

	return fixture_run_case("worker", &f, tests, ELEMENTSOF(tests));
}
