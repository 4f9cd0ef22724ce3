/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each system call with which the store looks after its files fails in turn. An open either goes
 * well or says what the system said; a good store is never put aside for it, a bad one is neither
 * lost nor put aside without a word, and the next open goes well. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "failing.h"
#include "store-support.h"
#include "support.h"
#include "base/macros.h"

#define INSTEAD(...) FAILING(-1, EIO, __VA_ARGS__)

INSTEAD(int, fstat64, (int fd, struct stat *st), fd, st)
INSTEAD(int, fstatat64, (int fd, const char *name, struct stat *st, int flags), fd, name, st, flags)
INSTEAD(int, flock, (int fd, int operation), fd, operation)
INSTEAD(int, unlinkat, (int fd, const char *name, int flags), fd, name, flags)
INSTEAD(int, renameat2, (int fd, const char *from, int to_fd, const char *to, unsigned int flags),
	fd, from, to_fd, to, flags)
INSTEAD(int, fsync, (int fd), fd)
INSTEAD(ssize_t, read, (int fd, void *buf, size_t n), fd, buf, n)

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	return fails(EIO) ? -1 : __real_open64(path, flags);
}

int __real_openat64(int fd, const char *name, int flags, ...);
int __wrap_openat64(int fd, const char *name, int flags, ...);
int __wrap_openat64(int fd, const char *name, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	return fails(EIO) ? -1 : __real_openat64(fd, name, flags, mode);
}

/* Whether the last open met its failure. */
static bool fired;

/* Opens it while the nth call fails, and closes it. Returns what store_open did. */
static int open_with(const struct state_dir *d, unsigned int nth, char **ret_aside)
{
	struct store *s = NULL;
	const char *why = "";
	int r;

	*ret_aside = NULL;
	failing_arm(nth, 0);
	r = store_open(&s, d->path, ret_aside, &why);
	fired = failing_disarm();
	ck_assert_msg(r == 0 || (r == -EIO && fired && why[0]), "%u: %d %s", nth, r, why);
	ck_assert_int_eq(r == 0, s != NULL);
	store_close(s);
	return r;
}

START_TEST(test_fault_09_a_good_store_is_kept)
{
	unsigned int failed = 0;
	struct state_dir d;
	struct store *s;
	uint64_t id;

	state_make(&d);
	s = state_open(&d);
	ck_assert_int_eq(job_make(s, "/a", 3, &id), 0);
	store_close(s);
	fired = true;
	for (unsigned int nth = 1; fired; nth++) {
		char *aside;

		failed += open_with(&d, nth, &aside) < 0;
		ck_assert_ptr_null(aside);
		s = state_open(&d);
		ck_assert_uint_eq(jobs_count(s), 1);
		store_close(s);
	}
	ck_assert_uint_ge(failed, 3);
	ck_assert_uint_eq(tree_count(d.path), 3);
	state_remove(&d);
}
END_TEST

START_TEST(test_fault_09_a_first_start_is_made_up_for)
{
	unsigned int failed = 0;

	fired = true;
	for (unsigned int nth = 1; fired; nth++) {
		struct state_dir d;
		char *aside;

		state_make(&d);
		failed += open_with(&d, nth, &aside) < 0;
		ck_assert_ptr_null(aside);
		store_close(state_open(&d));
		ck_assert_uint_eq(tree_count(d.path), 3);
		state_remove(&d);
	}
	ck_assert_uint_ge(failed, 6);
}
END_TEST

START_TEST(test_fault_05_09_a_bad_store_is_kept_and_told_of_once)
{
	static const char bad[] = "This is not a database.\n";
	unsigned int failed = 0;

	fired = true;
	for (unsigned int nth = 1; fired; nth++) {
		char *first, *second, path[256];
		struct state_dir d;
		struct stat st;
		bool met;

		state_make(&d);
		file_make(d.path, "reclaimd.db", bad);
		failed += open_with(&d, nth, &first) < 0;
		met = fired;
		ck_assert_int_eq(open_with(&d, 0, &second), 0);
		ck_assert_msg(!first != !second, "%u: %s, then %s", nth, first ? first : "nothing",
			      second ? second : "nothing");
		ck_assert_uint_eq(state_count(&d, "reclaimd.db.damaged-"), 1);
		ck_assert_int_eq(stat(state_file(&d, "reclaimd.db", path), &st), 0);
		ck_assert_int_gt(st.st_size, (off_t)sizeof(bad));
		free(first);
		free(second);
		state_remove(&d);
		fired = met;
	}
	ck_assert_uint_ge(failed, 9);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		test_fault_09_a_good_store_is_kept,
		test_fault_09_a_first_start_is_made_up_for,
		test_fault_05_09_a_bad_store_is_kept_and_told_of_once,
	};

	return run_case("store-calls", tests, ELEMENTSOF(tests));
}
