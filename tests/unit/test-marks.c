/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Marks of jobs that other hosts may help with: believed only as root has made them. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"
#include "base/fd.h"
#include "base/lock-holder.h"
#include "base/macros.h"
#include "worker-fixture.h"

static struct fixture f;
static char mount_path[128];
static struct mark_message seen;
static char seen_space[256], seen_name[256];
static gid_t seen_groups[PROTOCOL_MARK_GROUPS];

#define JOB "0123abcd"

/* A path beneath the mount. */
static const char *at(const char *name)
{
	static char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", mount_path, name);
	return path;
}

static void dir(const char *name, mode_t mode)
{
	ck_assert_int_eq(mkdir(at(name), 0700), 0);
	ck_assert_int_eq(chmod(at(name), mode), 0);
}

/* As root's worker, on a filesystem with a host's part of the staging directories. */
static void begin(void)
{
	f.who.uid = f.who.gid = 0;
	fixture_start(&f, -1);
	(void)snprintf(mount_path, sizeof(mount_path), "%s/mount", f.dir);
	ck_assert_int_eq(mkdir(mount_path, 0755), 0);
	ck_assert_int_eq(mount("tmpfs", mount_path, "tmpfs", 0, NULL), 0);
	dir(".reclaim", 0711);
	dir(".reclaim/@rack7", 0711);
}

static void end(void)
{
	ck_assert_int_eq(umount2(mount_path, MNT_DETACH), 0);
}

static struct write_mark_message whole(void)
{
	return (struct write_mark_message){
		.mount_path = mount_path,
		.host = "rack7",
		.job = JOB,
		.space = "example.org",
		.uid = 1000,
		.gid = 100,
		.dir_name = "uuid",
		.dir = { .ino = 4711, .btime_nsec = 1700000000123456789, .type = S_IFDIR },
	};
}

static int write_as(const struct write_mark_message *m)
{
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(worker_write_mark(f.worker, m, fixture_done, &f), 0);
	fixture_wait(&f);
	return f.seen.r;
}

static int write_whole(void)
{
	const struct write_mark_message m = whole();

	return write_as(&m);
}

static void on_mark(int r, const struct mark_message *mark, void *userdata)
{
	fixture_done(r, userdata);
	ck_assert_int_eq(r == 0, mark != NULL);
	if (!mark)
		return;
	seen = *mark;
	(void)snprintf(seen_name, sizeof(seen_name), "%s", mark->dir_name);
	(void)snprintf(seen_space, sizeof(seen_space), "%s", mark->space);
	memcpy(seen_groups, mark->groups.data, mark->groups.len);
}

static int read_as(const char *host, const char *job)
{
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(worker_read_mark(f.worker,
					  &(struct mark_place){ mount_path, 0, host, NULL, job },
					  on_mark, &f),
			 0);
	fixture_wait(&f);
	return f.seen.r;
}

static int read_whole(void)
{
	return read_as("rack7", JOB);
}

static int withdraw(void)
{
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(
		worker_withdraw_mark(f.worker,
				     &(struct mark_place){ mount_path, 0, "rack7", NULL, JOB },
				     fixture_done, &f),
		0);
	fixture_wait(&f);
	return f.seen.r;
}

static int take_back(void)
{
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(
		worker_remove_mark(f.worker,
				   &(struct mark_place){ mount_path, 0, "rack7", NULL, JOB },
				   fixture_done, &f),
		0);
	fixture_wait(&f);
	return f.seen.r;
}

START_TEST(a_mark_says_what_was_written)
{
	gid_t groups[PROTOCOL_MARK_GROUPS];
	struct write_mark_message m;

	begin();
	for (size_t i = 0; i < ELEMENTSOF(groups); i++)
		groups[i] = (gid_t)(UINT32_MAX - 2 - i);
	m = whole();
	ck_assert_int_eq(read_whole(), -ENOENT);
	ck_assert_int_eq(take_back(), 0);
	for (size_t n = 0; n <= ELEMENTSOF(groups); n = n * 5 + 4) {
		m.groups = (struct wire_bytes){ groups, n * sizeof(gid_t) };
		ck_assert_int_eq(write_as(&m), 0);
		ck_assert_int_eq(read_whole(), 0);
		ck_assert_str_eq(seen_space, m.space);
		ck_assert_str_eq(seen_name, m.dir_name);
		ck_assert_uint_eq(seen.uid, m.uid);
		ck_assert_uint_eq(seen.gid, m.gid);
		ck_assert(lasting_equal(&seen.dir, &m.dir));
		ck_assert_uint_eq(seen.groups.len, n * sizeof(gid_t));
		ck_assert_mem_eq(seen_groups, groups, n * sizeof(gid_t));
	}
	m.groups.len = sizeof(groups);
	ck_assert_int_eq(write_as(&m), 0);
	ck_assert_int_eq(read_whole(), 0);
	ck_assert_mem_eq(seen_groups, groups, sizeof(groups));
	ck_assert_int_eq(read_as("rack8", JOB), -ENOENT);
	ck_assert_int_eq(read_as("rack7", "4567"), -ENOENT);
	ck_assert_int_eq(take_back(), 0);
	ck_assert_int_eq(read_whole(), -ENOENT);
	ck_assert_int_eq(access(at(".reclaim/@rack7/marks/" JOB), F_OK), -1);
	end();
}
END_TEST

/* It tells that there was one, until it is removed or written again. */
START_TEST(a_mark_is_withdrawn)
{
	struct write_mark_message m = whole();
	struct stat before, after;

	begin();
	ck_assert_int_eq(withdraw(), -ENOENT);
	ck_assert_int_eq(write_whole(), 0);
	ck_assert_int_eq(stat(at(".reclaim/@rack7/marks/" JOB), &before), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(withdraw(), 0);
		ck_assert_int_eq(read_whole(), -ENOENT);
		/* At no moment is there none: the same says it again. */
		ck_assert_int_eq(write_whole(), 0);
		ck_assert_int_eq(write_whole(), 0);
		ck_assert_int_eq(read_whole(), 0);
		ck_assert_int_eq(stat(at(".reclaim/@rack7/marks/" JOB), &after), 0);
		ck_assert_uint_eq(before.st_ino, after.st_ino);
	}
	/* One that is to say something else is made anew. */
	ck_assert_int_eq(withdraw(), 0);
	m.uid = 2000;
	ck_assert_int_eq(write_as(&m), 0);
	ck_assert_int_eq(read_whole(), 0);
	ck_assert_uint_eq(seen.uid, 2000);
	ck_assert_int_eq(withdraw(), 0);
	ck_assert_int_eq(withdraw(), 0);
	ck_assert_int_eq(take_back(), 0);
	ck_assert_int_eq(withdraw(), -ENOENT);
	/* What is left of one that was being removed tells as much. */
	ck_assert_int_eq(write_whole(), 0);
	ck_assert_int_eq(rmdir(at(".reclaim/@rack7/marks/" JOB "/mark=1")), 0);
	ck_assert_int_eq(withdraw(), 0);
	ck_assert_int_eq(write_whole(), 0);
	ck_assert_int_eq(read_whole(), 0);
	end();
}
END_TEST

START_TEST(what_cannot_be_a_mark_is_not_written)
{
	static const char *const spaces[] = { "", "a b", "a/b", "a\nb", "\xc3\xa4" };
	static const gid_t groups[PROTOCOL_MARK_GROUPS + 1];
	char long_name[NAME_MAX + 1];
	struct write_mark_message m;

	begin();
	for (size_t i = 0; i < ELEMENTSOF(spaces); i++) {
		m = whole();
		m.space = spaces[i];
		ck_assert_int_eq(write_as(&m), -EINVAL);
	}
	m = whole();
	m.groups = (struct wire_bytes){ groups, sizeof(groups) };
	ck_assert_int_eq(write_as(&m), -E2BIG);
	m.groups.len = 3;
	ck_assert_int_eq(write_as(&m), -EINVAL);
	m = whole();
	m.dir_name = "..";
	ck_assert_int_eq(write_as(&m), -EINVAL);
	m = whole();
	m.dir.type = S_IFREG;
	ck_assert_int_eq(write_as(&m), -EINVAL);
	m = whole();
	m.job = ".hidden";
	ck_assert_int_eq(write_as(&m), -EINVAL);
	memset(long_name, 'x', NAME_MAX);
	long_name[NAME_MAX] = '\0';
	m.job = long_name;
	ck_assert_int_eq(write_as(&m), -EINVAL);
	m = whole();
	m.host = long_name;
	ck_assert_int_eq(write_as(&m), -EINVAL);
	m.host = "rack8"; /* which has nothing here */
	ck_assert_int_eq(write_as(&m), -ENOENT);
	m.host = "../rack7";
	ck_assert_int_eq(write_as(&m), -EPIPE);
	ck_assert_int_eq(access(at(".reclaim/@rack7/marks/" JOB), F_OK), -1);
	end();
}
END_TEST

/* Not believed while it is so. */
#define DOUBTED_WHILE(change, back)                                                                \
	do {                                                                                       \
		ck_assert_int_eq(read_whole(), 0);                                                 \
		ck_assert_int_eq(change, 0);                                                       \
		ck_assert_int_eq(read_whole(), -EPERM);                                            \
		ck_assert_int_eq(back, 0);                                                         \
	} while (0)

START_TEST(only_roots_own_is_believed)
{
	static const char *const dirs[] = { ".reclaim", ".reclaim/@rack7", ".reclaim/@rack7/marks",
					    ".reclaim/@rack7/marks/" JOB };
	static const mode_t modes[] = { 0711, 0711, 0700, 0700 };
	char from[PATH_MAX];

	begin();
	ck_assert_int_eq(write_whole(), 0);
	for (size_t i = 0; i < ELEMENTSOF(dirs); i++) {
		DOUBTED_WHILE(chmod(at(dirs[i]), 0755), chmod(at(dirs[i]), modes[i]));
		DOUBTED_WHILE(chown(at(dirs[i]), NOBODY, 0), chown(at(dirs[i]), 0, 0));
		/* What it leads to is as it should be. */
		(void)snprintf(from, sizeof(from), "%s.real", at(dirs[i]));
		ck_assert_int_eq(rename(at(dirs[i]), from), 0);
		ck_assert_int_eq(symlink(strrchr(from, '/') + 1, at(dirs[i])), 0);
		ck_assert_int_eq(read_whole(), -EPERM);
		ck_assert_int_eq(unlink(at(dirs[i])), 0);
		ck_assert_int_eq(rename(from, at(dirs[i])), 0);
		/* Nor what is mounted there. */
		(void)snprintf(from, sizeof(from), "%s", at(dirs[i]));
		DOUBTED_WHILE(mount(from, from, NULL, MS_BIND, NULL), umount2(from, MNT_DETACH));
	}
	end();
}
END_TEST

START_TEST(what_says_something_else_is_none)
{
#define MARK ".reclaim/@rack7/marks/" JOB
	static const char *const names[] = {
		"mark=1",       "space=example.org", "owner=1000.100.2",
		"groups.0=5,7", "name=uuid",         "directory=4711.1700000000123456789"
	};
	static const char *const other[] = {
		"mark=2",
		"space=",
		"owner=1000.100.3",
		"owner=01000.100.2",
		"owner= 1000.100.2",
		"owner=+1000.100.2",
		"owner=1000.100",
		"owner=4294967296.0.2",
		"groups.1=5,7",
		"groups.0=5,7,",
		"groups.0=5",
		"directory=0.0",
		"directory=4711",
		"name=..",
		"more",
	};
	const gid_t groups[] = { 5, 7 };
	struct write_mark_message m;
	char from[PATH_MAX], to[PATH_MAX];

	begin();
	m = whole();
	m.groups = (struct wire_bytes){ groups, sizeof(groups) };
	ck_assert_int_eq(write_as(&m), 0);
	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		(void)snprintf(from, sizeof(from), MARK "/%s", names[i]);
		(void)snprintf(to, sizeof(to), "%s", at(from));
		DOUBTED_WHILE(rmdir(to), mkdir(to, 0700));
		for (size_t k = 0; k < ELEMENTSOF(other); k++) {
			(void)snprintf(to, sizeof(to), "%s/" MARK "/%s", mount_path, other[k]);
			DOUBTED_WHILE(rename(at(from), to), rename(to, at(from)));
		}
	}
	/* Beside all that there should be. */
	for (size_t k = 0; k < ELEMENTSOF(other); k++) {
		(void)snprintf(to, sizeof(to), "%s/" MARK "/%s", mount_path, other[k]);
		DOUBTED_WHILE(mkdir(to, 0700), rmdir(to));
	}
	ck_assert_int_eq(read_whole(), 0);
	/* What is left of one that was being made. */
	dir(".reclaim/@rack7/marks/." JOB, 0700);
	dir(".reclaim/@rack7/marks/." JOB "/mark=1", 0700);
	ck_assert_int_eq(write_whole(), 0);
	ck_assert_int_eq(read_whole(), 0);
	end();
}
END_TEST

/* Only the daemon whose the host's part is may say what is marked in it. */
START_TEST(only_the_holder_marks)
{
	char own[HOLDER_SIZE], lock[PATH_MAX];
	struct write_mark_message m;
	struct mark_place place = { mount_path, 0, "rack7", own, JOB };

	begin();
	ck_assert_int_eq(holder_format(own, "0123456789abcdef0123456789abcdef"), 0);
	m = whole();
	m.holder = own;
	ck_assert_int_eq(write_as(&m), -EBUSY);
	dir(".reclaim/@rack7/lock", 0700);
	dir(".reclaim/@rack7/lock/other", 0700);
	ck_assert_int_eq(write_as(&m), -EBUSY);
	(void)snprintf(lock, sizeof(lock), "%s/.reclaim/@rack7/lock/%s", mount_path, own);
	ck_assert_int_eq(rename(at(".reclaim/@rack7/lock/other"), lock), 0);
	ck_assert_int_eq(write_as(&m), 0);
	ck_assert_int_eq(read_whole(), 0);
	own[0] = own[0] == 'x' ? 'y' : 'x';
	f.seen = (struct seen){ .fd = -1 };
	ck_assert_int_ge(worker_remove_mark(f.worker, &place, fixture_done, &f), 0);
	fixture_wait(&f);
	ck_assert_int_eq(f.seen.r, -EBUSY);
	ck_assert_int_eq(read_whole(), 0);
	end();
}
END_TEST

START_TEST(no_other_user_has_a_say)
{
	begin();
	ck_assert_int_eq(write_whole(), 0);
	f.who.uid = f.who.gid = NOBODY;
	fixture_start(&f, -1);
	ck_assert_int_eq(read_whole(), -EACCES);
	ck_assert_int_eq(write_whole(), -EACCES);
	ck_assert_int_eq(withdraw(), -EACCES);
	ck_assert_int_eq(take_back(), -EACCES);
	f.who.uid = f.who.gid = 0;
	fixture_start(&f, -1);
	ck_assert_int_eq(read_whole(), 0);
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { a_mark_says_what_was_written,
				       a_mark_is_withdrawn,
				       what_cannot_be_a_mark_is_not_written,
				       only_roots_own_is_believed,
				       what_says_something_else_is_none,
				       only_the_holder_marks,
				       no_other_user_has_a_say };

	return fixture_run_case("marks", &f, tests, ELEMENTSOF(tests));
}
