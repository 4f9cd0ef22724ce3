/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each system call of the engine fails in turn, alone or with those that come after it: what could
 * not be deleted is told of, what was not to be deleted is there, no descriptor stays open, and the
 * next run finishes the work. What is protected is protected, or nothing is. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acceptance.h"
#include "engine/engine.h"
#include "failing.h"
#include "support.h"
#include "base/fd.h"
#include "base/macros.h"

#define INSTEAD(...) FAILING(-1, EIO, __VA_ARGS__)

INSTEAD(int, fstat64, (int fd, struct stat *st), fd, st)
INSTEAD(int, statx, (int fd, const char *name, int flags, unsigned mask, struct statx *sx), fd,
	name, flags, mask, sx)
INSTEAD(int, unlinkat, (int fd, const char *name, int flags), fd, name, flags)
INSTEAD(int, fstatfs64, (int fd, void *ret), fd, ret)
INSTEAD(int, ftruncate64, (int fd, off_t size), fd, size)
INSTEAD(int, fallocate64, (int fd, int mode, off_t at, off_t len), fd, mode, at, len)
INSTEAD(int, getrlimit64, (int what, struct rlimit *ret), what, ret)
INSTEAD(ssize_t, read, (int fd, void *buf, size_t n), fd, buf, n)
INSTEAD(ssize_t, pread64, (int fd, void *buf, size_t n, off_t at), fd, buf, n, at)
INSTEAD(ssize_t, pwrite64, (int fd, const void *buf, size_t n, off_t at), fd, buf, n, at)
INSTEAD(ssize_t, readlink, (const char *path, char *buf, size_t n), path, buf, n)

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	return fails(EIO) ? -1 : __real_open64(path, flags, 0600);
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
	va_list ap;
	long value;

	va_start(ap, command);
	value = va_arg(ap, long);
	va_end(ap);
	return fails(EIO) ? -1 : __real_fcntl64(fd, command, value);
}

/* getdents64 and openat2. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	va_list ap;
	long v[4];

	va_start(ap, number);
	for (size_t i = 0; i < ELEMENTSOF(v); i++)
		v[i] = va_arg(ap, long);
	va_end(ap);
	return fails(EIO) ? -1 : __real_syscall(number, v[0], v[1], v[2], v[3]);
}

static unsigned descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* ---- deleting ------------------------------------------------------------------------------- */

struct deletion {
	struct engine_options o;
	void (*make)(const char *dir);
	unsigned step; /* from one call that fails to the next */
	rlim_t files;  /* that may be open, 0: as many as usual */
};

static void small_tree(const char *dir)
{
	char path[PATH_MAX];
	int fd;

	tree_make(dir, "t/ t/a t/b/ t/b/c t/b/d/ t/b/d/e/ t/b/d/e/f t/g/ t/g/h t/l>a t/large keep");
	(void)snprintf(path, sizeof(path), "%.4000s/t/large", dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(posix_fallocate(fd, 0, MiB(3)), 0);
	(void)close(fd);
}

/* Its levels are more than may be open, its paths longer than paths may be, and the names that wait
 * more than are kept in memory. */
static void large_tree(const char *dir)
{
	enum { LEVELS = 30, BESIDE = 24 };
	int fd, next;
	char name[256];

	tree_make(dir, "t/ keep");
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	next = openat(fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < LEVELS; i++) {
		(void)close(fd);
		fd = next;
		for (int j = 0; j < BESIDE; j++) {
			(void)snprintf(name, sizeof(name), "%0250d", j);
			ck_assert_int_eq(mkdirat(fd, name, 0755), 0);
		}
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ck_assert_int_ge(next, 0);
	}
	(void)close(fd);
	(void)close(next);
}

static void on_problem(const struct engine_problem *p, void *userdata)
{
	if (!p->path || !p->what)
		abort(); /* on any lane */
	++*(unsigned *)userdata;
}

/* Returns what the engine does; *ret_told, whether it counts anything that is left. */
static int delete (const struct deletion *d, const char *dir, int dirfd, bool *ret_told)
{
	struct root_group g = { .accepted = true, .dir = (char *)dir, .dirfd = dirfd };
	struct engine_options o = d->o;
	struct engine_progress p = { 0 };
	unsigned problems = 0;
	struct engine *e = NULL;
	int r;

	o.problem = on_problem;
	o.userdata = &problems;
	ck_assert_int_eq(dirlist_add(&g.names, "t", 0, 0), 0);
	r = engine_new(&e, &o, dirfd);
	if (r >= 0)
		r = engine_add(e, &g);
	if (r >= 0)
		r = engine_run(e);
	if (r >= 0)
		engine_result(e, &p);
	*ret_told = problems > 0 && p.stats.errors + stats_skipped(&p.stats) > 0;
	dirlist_done(&g.names);
	engine_free(e);
	return r;
}

static bool delete_with(const struct deletion *d, unsigned nth, unsigned n_more)
{
	struct rlimit before, fewer;
	char dir[PATH_MAX], path[PATH_MAX + 8];
	bool met, told, again;
	unsigned open_before;
	int r, dirfd;

	scratch_make(dir, sizeof(dir));
	d->make(dir);
	(void)snprintf(path, sizeof(path), "%.4000s/t", dir);
	dirfd = open(dir, O_PATH | O_CLOEXEC);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	fewer = (struct rlimit){ d->files ? d->files : before.rlim_cur, before.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &fewer), 0);
	open_before = descriptors();
	failing_arm(nth, n_more);
	r = delete (d, dir, dirfd, &told);
	met = failing_disarm();
	ck_assert_msg(r == 0 || (met && r == -EIO), "%u+%u: %d", nth, n_more, r);
	ck_assert_msg(r < 0 || told || access(path, F_OK) < 0, "%u+%u", nth, n_more);
	ck_assert_msg(met || access(path, F_OK) < 0, "%u+%u", nth, n_more);
	ck_assert_uint_eq(descriptors(), open_before);
	/* What has happened before does not matter to the next. */
	ck_assert_int_eq(delete (d, dir, dirfd, &again), 0);
	ck_assert_uint_eq(tree_count(dir), 1);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	(void)close(dirfd);
	scratch_remove(dir);
	return met;
}

/* Until a run goes through without having met the failure. */
static void each(const struct deletion *d)
{
	static const unsigned rows[] = { 0, 3, 100000 };

	for (size_t i = 0; i < ELEMENTSOF(rows); i++)
		for (unsigned nth = 1; delete_with(d, nth, rows[i]); nth += d->step)
			ck_assert_uint_lt(nth, 200000);
}

START_TEST(test_fault_08_09_while_deleting)
{
	struct deletion d = { .o = { .fixed_backend = true, .lanes = 1 },
			      .make = small_tree,
			      .step = 1 };

	each(&d);
	d.o.weigh = true;
	d.o.shrink_min_bytes = MiB(1);
	each(&d);
	d.o.lanes = 2;
	each(&d);
}
END_TEST

START_TEST(test_fault_08_09_in_a_tree_that_is_hard_to_walk)
{
	struct deletion d = { .o = { .fixed_backend = true, .lanes = 1 },
			      .make = large_tree,
			      .step = 97,
			      .files = 60 };

	each(&d);
	d.o.lanes = 2;
	d.files = 400;
	each(&d);
}
END_TEST

/* ---- accepting ------------------------------------------------------------------------------ */

START_TEST(test_fault_08_what_is_protected_stays_so)
{
	unsigned before = descriptors();
	struct acceptance a;
	const char *paths[] = { a.kept, a.inside, a.dir, a.beside, NULL };

	acceptance_make(&a);
	for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
		bool met = true;

		for (unsigned nth = 1; met; nth++) {
			int r, usual = !paths[i] || paths[i] == a.beside ? 0 : -EPERM;

			failing_arm(nth, 0);
			r = paths[i] ? acceptance_path(&a, paths[i]) : acceptance_list(&a);
			met = failing_disarm();
			ck_assert_msg(r == usual || met, "%u: %d", nth, r);
		}
	}
	ck_assert_uint_eq(descriptors(), before);
	acceptance_remove(&a);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { test_fault_08_09_while_deleting,
				       test_fault_08_09_in_a_tree_that_is_hard_to_walk,
				       test_fault_08_what_is_protected_stays_so };

	return run_case("engine-calls", tests, ELEMENTSOF(tests));
}
