/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is found in the state directory: trusted, refused, or put aside; and what a crash leaves. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store-support.h"
#include "support.h"
#include "base/fd.h"
#include "base/macros.h"

static void assert_refused(const char *path, int expected, const char *words)
{
	struct store *s = NULL;
	char *aside = NULL;
	const char *why = "";

	ck_assert_int_eq(store_open(&s, path, &aside, &why), expected);
	ck_assert_ptr_null(s);
	ck_assert_ptr_null(aside);
	ck_assert_msg(strstr(why, words), "%s", why);
}

static void copy_file(const struct state_dir *d, const char *from, const char *to)
{
	char a[256], b[256], buf[4096];
	int in = open(state_file(d, from, a), O_RDONLY | O_CLOEXEC);
	int out = open(state_file(d, to, b), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n;

	ck_assert(in >= 0 && out >= 0);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		ck_assert_int_eq(write(out, buf, (size_t)n), n);
	(void)close(in);
	(void)close(out);
}

/* A store with jobs, closed. */
static void state_fill(const struct state_dir *d, unsigned int jobs)
{
	struct store *s = state_open(d);
	uint64_t id;

	ck_assert_int_eq(store_begin(s), 0);
	for (unsigned int i = 0; i < jobs; i++)
		ck_assert_int_eq(job_make(s, "/a", 100, &id), 0);
	ck_assert_int_eq(store_commit(s), 0);
	store_close(s);
}

static off_t file_size(const struct state_dir *d, const char *name)
{
	struct stat st;
	char path[256];

	return stat(state_file(d, name, path), &st) < 0 ? -1 : st.st_size;
}

START_TEST(test_fault_07_only_a_directory_of_our_own_is_used)
{
	struct state_dir d;
	char path[256];

	state_make(&d);
	tree_make(d.path, "file link>dir dir/");
	assert_refused(state_file(&d, "none", path), -ENOENT, "does not exist");
	assert_refused(state_file(&d, "file", path), -EPERM, "not a directory");
	assert_refused(state_file(&d, "link", path), -EPERM, "symbolic link");
	ck_assert_int_eq(chmod(state_file(&d, "dir", path), 0720), 0);
	assert_refused(path, -EPERM, "other users may write");
	ck_assert_int_eq(chmod(path, 0702), 0);
	assert_refused(path, -EPERM, "other users may write");
	if (geteuid() == 0) {
		ck_assert_int_eq(chmod(path, 0700), 0);
		ck_assert_int_eq(chown(path, 1, 1), 0);
		assert_refused(path, -EPERM, "belongs to another user");
	}
	ck_assert_uint_eq(tree_count(path), 0);
	state_remove(&d);
}
END_TEST

START_TEST(only_a_file_of_our_own_is_used)
{
	struct state_dir d;
	char path[256];

	state_make(&d);
	state_file(&d, "reclaimd.db", path);
	ck_assert_int_eq(symlink("elsewhere", path), 0);
	assert_refused(d.path, -EPERM, "not a regular file");
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	assert_refused(d.path, -EPERM, "not a regular file");
	ck_assert_int_eq(unlink(path), 0);
	state_fill(&d, 1);
	ck_assert_int_eq(chmod(path, 0666), 0);
	assert_refused(d.path, -EPERM, "other users may write it");
	ck_assert_uint_eq(tree_count(d.path), 3);
	state_remove(&d);
}
END_TEST

START_TEST(files_are_ours_alone_and_nothing_is_shared)
{
	struct state_dir d;
	struct store *s;
	struct stat st;
	uint64_t id;
	char path[256];
	mode_t mask = umask(0);

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(job_make(s, "/a", 1, &id), 0);
	ck_assert_int_eq(stat(state_file(&d, "reclaimd.db", path), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(stat(state_file(&d, "reclaimd.db-wal", path), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_uint_eq(tree_count(d.path), 4);
	assert_refused(d.path, -EBUSY, "another reclaimd");
	store_close(s);
	ck_assert_uint_eq(tree_count(d.path), 3);
	(void)umask(mask);
	state_remove(&d);
}
END_TEST

START_TEST(a_directory_that_is_moved_is_still_the_one)
{
	struct state_dir d, other;
	struct store *s;
	uint64_t id;

	state_make(&d);
	s = state_open(&d);
	state_make(&other);
	ck_assert_int_eq(rename(d.path, other.path), 0);
	ck_assert_int_eq(mkdir(d.path, 0700), 0);
	/* The log is opened only now. */
	ck_assert_int_eq(job_make(s, "/a", 1, &id), 0);
	store_close(s);
	ck_assert_uint_eq(tree_count(d.path), 0);
	s = state_open(&other);
	ck_assert_uint_eq(jobs_count(s), 1);
	store_close(s);
	state_remove(&d);
	state_remove(&other);
}
END_TEST

/* Another process that has it open: what it does not lock for us, SQLite does. */
START_TEST(a_lock_of_another_process_is_busy_and_not_damage)
{
	struct state_dir d;
	char path[256];
	sqlite3 *db = NULL;
	int fds[2], status;
	char c;
	pid_t pid;

	state_make(&d);
	state_fill(&d, 1);
	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (sqlite3_open(state_file(&d, "reclaimd.db", path), &db) != SQLITE_OK ||
		    sqlite3_exec(db, "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE", NULL, NULL,
				 NULL) != SQLITE_OK ||
		    write(fds[1], "x", 1) != 1)
			_exit(1);
		(void)pause();
	}
	ck_assert_int_eq(read(fds[0], &c, 1), 1);
	assert_refused(d.path, -EBUSY, "another process");
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	(void)close(fds[0]);
	(void)close(fds[1]);
	store_close(state_open(&d));
	state_remove(&d);
}
END_TEST

/* Whoever may read the directory can lock it. */
START_TEST(test_attack_54_lock_of_the_directory_has_no_effect)
{
	struct state_dir d;
	char path[256];
	struct stat st;
	int fd;

	state_make(&d);
	fd = open(d.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	store_close(state_open(&d));
	/* Only root can open the file that is locked, whatever its mode was. */
	ck_assert_int_eq(chmod(state_file(&d, "lock", path), 0644), 0);
	store_close(state_open(&d));
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	(void)close(fd);
	state_remove(&d);
}
END_TEST

/* As of a worker that was being started when its reclaimd was killed. */
START_TEST(a_copy_of_the_lock_that_goes_in_a_moment_is_waited_for)
{
	const struct itimerval moment = { .it_value.tv_usec = 100000 };
	struct state_dir d;
	char path[256];
	int fd, status;
	pid_t pid;

	state_make(&d);
	store_close(state_open(&d));
	fd = open(state_file(&d, "lock", path), O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		(void)signal(SIGALRM, SIG_DFL); /* check's ends all of its tests */
		(void)setitimer(ITIMER_REAL, &moment, NULL);
		(void)pause();
	}
	(void)close(fd);
	store_close(state_open(&d));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
	state_remove(&d);
}
END_TEST

static void assert_aside(const struct state_dir *d, const char *words)
{
	struct store *s = state_open_aside(d, words);
	uint64_t id;

	ck_assert_uint_eq(jobs_count(s), 0);
	ck_assert_int_eq(job_make(s, "/new", 1, &id), 0);
	store_close(s);
	ck_assert_uint_ge(state_count(d, "reclaimd.db.damaged-"), 1);
	ck_assert_int_gt(file_size(d, "reclaimd.db"), 0);
}

START_TEST(test_fault_05_what_is_no_store_is_put_aside)
{
	struct state_dir d;
	char path[256];
	sqlite3 *db = NULL;

	state_make(&d);
	file_make(d.path, "reclaimd.db", "This is not a database, but a user may need it.\n");
	assert_aside(&d, "cannot be used");
	ck_assert_int_eq(truncate(state_file(&d, "reclaimd.db", path), 0), 0);
	assert_aside(&d, "it is empty");
	ck_assert_int_eq(unlink(path), 0);
	file_make(d.path, "reclaimd.db-wal", "a log");
	assert_aside(&d, "only the log is left");
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, "CREATE TABLE t (a)", NULL, NULL, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
	assert_aside(&d, "another program's");
	/* All four are still there, under four names, though within one second. */
	ck_assert_uint_eq(state_count(&d, "reclaimd.db.damaged-"), 4);
	state_remove(&d);
}
END_TEST

START_TEST(test_fault_05_newer_store_can_be_put_back)
{
	struct state_dir d;
	struct store *s;
	char path[256], to[256];

	state_make(&d);
	state_fill(&d, 3);
	(void)state_change(&d, "PRAGMA user_version = 99");
	copy_file(&d, "reclaimd.db", "kept");
	assert_aside(&d, "a newer reclaimd made it (version 99");
	ck_assert_int_eq(rename(state_file(&d, "kept", path), state_file(&d, "reclaimd.db", to)),
			 0);
	(void)state_change(&d, "PRAGMA user_version = 1");
	s = state_open(&d);
	ck_assert_uint_eq(jobs_count(s), 3);
	store_close(s);
	state_remove(&d);
}
END_TEST

START_TEST(tables_that_are_not_as_they_were_made_are_damage)
{
	static const char *const damage[] = {
		"DROP TABLE problems",
		"DROP INDEX jobs_unfinished",
		"ALTER TABLE entries ADD COLUMN x",
		"PRAGMA user_version = 0",
	};
	struct state_dir d;

	for (size_t i = 0; i < ELEMENTSOF(damage); i++) {
		state_make(&d);
		state_fill(&d, 1);
		(void)state_change(&d, "CREATE TABLE mine (a)"); /* what is added does no harm */
		store_close(state_open(&d));
		(void)state_change(&d, damage[i]);
		assert_aside(&d, i < 3 ? "its table" : "another program's");
		state_remove(&d);
	}
}
END_TEST

START_TEST(test_fault_05_truncated_store_is_put_aside)
{
	struct state_dir d;
	char path[256];
	off_t size;

	state_make(&d);
	state_fill(&d, 20);
	size = file_size(&d, "reclaimd.db");
	copy_file(&d, "reclaimd.db", "whole");
	state_file(&d, "reclaimd.db", path);
	for (off_t cut = 1; cut < size; cut += cut < 4096 ? 1023 : 5000) {
		copy_file(&d, "whole", "reclaimd.db");
		ck_assert_int_eq(truncate(path, cut), 0);
		assert_aside(&d, "cannot be used");
	}
	ck_assert_uint_ge(state_count(&d, "reclaimd.db.damaged-"), 10);
	state_remove(&d);
}
END_TEST

/* Overwritten pages: set aside, or opened where the page held nothing; never a crash. */
START_TEST(test_fault_05_overwritten_pages_are_noticed)
{
	static const char garbage[4096] = { [0 ... 4095] = 0x5a };
	struct state_dir d;
	char path[256];
	off_t size;

	state_make(&d);
	state_fill(&d, 20);
	size = file_size(&d, "reclaimd.db");
	copy_file(&d, "reclaimd.db", "whole");
	state_file(&d, "reclaimd.db", path);
	for (off_t at = 0; at < size; at += 4096) {
		int fd;

		copy_file(&d, "whole", "reclaimd.db");
		fd = open(path, O_WRONLY | O_CLOEXEC);
		ck_assert_int_eq(pwrite(fd, garbage, sizeof(garbage), at), sizeof(garbage));
		(void)close(fd);
		assert_aside(&d, "cannot be used");
	}
	state_remove(&d);
}
END_TEST

START_TEST(the_log_goes_with_its_database)
{
	struct state_dir d;
	struct store *s;
	char path[256], log[256];
	uint64_t id;

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(job_make(s, "/a", 1, &id), 0);
	copy_file(&d, "reclaimd.db-wal", "log");
	store_close(s);
	ck_assert_int_eq(
		rename(state_file(&d, "log", path), state_file(&d, "reclaimd.db-wal", log)), 0);
	ck_assert_int_eq(truncate(state_file(&d, "reclaimd.db", path), 0), 0);
	assert_aside(&d, "it is empty");
	ck_assert_uint_eq(state_count(&d, "reclaimd.db.damaged-"), 2);
	state_remove(&d);
}
END_TEST

START_TEST(test_fault_06_older_copy_is_taken_for_what_it_is)
{
	struct state_dir d;
	struct store *s;
	uint64_t id;

	state_make(&d);
	state_fill(&d, 2);
	copy_file(&d, "reclaimd.db", "older");
	state_fill(&d, 3);
	copy_file(&d, "older", "reclaimd.db");
	s = state_open(&d);
	ck_assert_uint_eq(jobs_count(s), 2);
	ck_assert_int_eq(job_make(s, "/b", 0, &id), 0);
	ck_assert_uint_eq(id, 3);
	store_close(s);
	state_remove(&d);
}
END_TEST

static void add_until_killed(const struct state_dir *d, int out, unsigned int jobs)
{
	struct store *s = NULL;
	char *aside = NULL;
	const char *why;
	uint64_t id = 0;
	int r = store_open(&s, d->path, &aside, &why);

	for (unsigned int i = 0; i < jobs && r == 0; i++)
		r = job_make(s, "/durable", 10, &id);
	if (r == 0)
		r = store_begin(s);
	/* More than the cache holds, so that pages of it are in the log already. */
	for (unsigned int i = 0; i < 2000 && r == 0; i++)
		r = job_make(s, "/not", 50, &id);
	if (r != 0 || write(out, "x", 1) != 1)
		_exit(1);
	(void)pause();
}

START_TEST(a_kill_in_mid_transaction_leaves_what_was_committed)
{
	struct state_dir d;

	state_make(&d);
	for (unsigned int round = 1; round <= 3; round++) {
		struct store *s;
		int fds[2];
		char c;
		pid_t pid;

		ck_assert_int_eq(pipe(fds), 0);
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (pid == 0)
			add_until_killed(&d, fds[1], 5);
		ck_assert_int_eq(read(fds[0], &c, 1), 1);
		ck_assert_int_eq(kill(pid, SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		(void)close(fds[0]);
		(void)close(fds[1]);
		ck_assert_int_gt(file_size(&d, "reclaimd.db-wal"), 1000000);
		s = state_open(&d);
		ck_assert_uint_eq(jobs_count(s), 5ULL * round);
		for (uint64_t id = 1; id <= 5ULL * round; id++)
			ck_assert_uint_eq(entries_count(s, id), 10);
		store_close(s);
	}
	state_remove(&d);
}
END_TEST

/* A filesystem of its own, in a mount namespace of its own. */
static bool small_filesystem(const char *path)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", path, "tmpfs", 0, "size=1m,mode=700") < 0) {
		(void)fprintf(stderr, "skipped: a filesystem cannot be mounted here\n");
		return false;
	}
	return true;
}

START_TEST(test_fault_04_full_disk_is_said_and_survived)
{
	struct state_dir d;
	struct store *s;
	uint64_t id, jobs = 0;
	char path[256];
	int r;

	state_make(&d);
	if (small_filesystem(d.path)) {
		s = state_open(&d);
		while ((r = store_begin(s)) == 0 && (r = job_make(s, "/a", 50, &id)) == 0 &&
		       (r = store_commit(s)) == 0)
			jobs++;
		ck_assert_int_eq(r, -ENOSPC);
		store_rollback(s);
		ck_assert_uint_gt(jobs, 10);
		ck_assert_uint_eq(jobs_count(s), jobs);
		store_close(s);
		ck_assert_uint_eq(state_count(&d, "reclaimd.db.damaged-"), 0);
		/* With not a byte left it is opened, and read. */
		file_make(d.path, "filler", "");
		r = open(state_file(&d, "filler", path), O_WRONLY | O_CLOEXEC);
		while (write(r, path, sizeof(path)) > 0)
			;
		(void)close(r);
		s = state_open(&d);
		ck_assert_uint_eq(jobs_count(s), jobs);
		ck_assert_uint_eq(entries_count(s, jobs), 50);
		store_close(s);
		/* But none is made there, and what there is stays. */
		ck_assert_int_eq(unlink(state_file(&d, "reclaimd.db", path)), 0);
		(void)unlink(state_file(&d, "reclaimd.db-wal", path));
		r = open(state_file(&d, "filler", path), O_WRONLY | O_APPEND | O_CLOEXEC);
		while (write(r, path, sizeof(path)) > 0)
			;
		(void)close(r);
		assert_refused(d.path, -ENOSPC, "no space");
		ck_assert_int_eq(mount(NULL, d.path, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
		assert_refused(d.path, -EROFS, "cannot be written");
		ck_assert_int_eq(umount(d.path), 0);
	}
	state_remove(&d);
}
END_TEST

START_TEST(test_fault_10_read_only_disk_puts_nothing_aside)
{
	struct state_dir d;
	struct store *s;

	state_make(&d);
	if (small_filesystem(d.path)) {
		state_fill(&d, 1);
		ck_assert_int_eq(mount(NULL, d.path, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
		assert_refused(d.path, -EROFS, "cannot be written");
		ck_assert_int_eq(mount(NULL, d.path, NULL, MS_REMOUNT, NULL), 0);
		s = state_open(&d);
		ck_assert_uint_eq(jobs_count(s), 1);
		store_close(s);
		ck_assert_int_eq(umount(d.path), 0);
	}
	state_remove(&d);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		test_fault_07_only_a_directory_of_our_own_is_used,
		only_a_file_of_our_own_is_used,
		files_are_ours_alone_and_nothing_is_shared,
		a_directory_that_is_moved_is_still_the_one,
		a_lock_of_another_process_is_busy_and_not_damage,
		test_fault_05_what_is_no_store_is_put_aside,
		test_attack_54_lock_of_the_directory_has_no_effect,
		a_copy_of_the_lock_that_goes_in_a_moment_is_waited_for,
		test_fault_05_newer_store_can_be_put_back,
		tables_that_are_not_as_they_were_made_are_damage,
		test_fault_05_truncated_store_is_put_aside,
		test_fault_05_overwritten_pages_are_noticed,
		the_log_goes_with_its_database,
		test_fault_06_older_copy_is_taken_for_what_it_is,
		a_kill_in_mid_transaction_leaves_what_was_committed,
		test_fault_04_full_disk_is_said_and_survived,
		test_fault_10_read_only_disk_puts_nothing_aside,
	};

	return run_case("store-open", tests, ELEMENTSOF(tests));
}
