/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "pacing/sensors/commit-sensor.h"
#include "support.h"

static const char jbd2[] = "1234 transactions (1200 requested), each up to 8192 blocks\n"
			   "average: \n"
			   "  0ms waiting for transaction\n"
			   "  0ms request delay\n"
			   "  620ms running transaction\n"
			   "  0ms transaction was being locked\n"
			   "  0ms flushing data (in ordered mode)\n"
			   "  10ms logging transaction\n"
			   "  13524us average transaction commit time\n"
			   "  73 handles per transaction\n"
			   "  3 blocks per transaction\n"
			   "  4 logged blocks per transaction\n";

static const char xfs[] = "extent_alloc 1 2 3 4\n"
			  "abt 0 0 0 0\n"
			  "trans 5 6 7\n"
			  "ig 1 2 3 4 5 6 7\n"
			  "log 11 22 33 44 55\n"
			  "push_ail 1 2 3 4 5 6 7 8 9 10\n"
			  "xpc 1 2 3\n";

static const char btrfs[] = "commits 7\n"
			    "last_commit_ms 12\n"
			    "max_commit_ms 340\n"
			    "total_commit_ms 900\n";

struct fixture {
	char dir[PATH_MAX], path[PATH_MAX + 16];
	struct commit_sample c;
};

static void begin(struct fixture *f, const char *text)
{
	scratch_make(f->dir, sizeof(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/info", f->dir);
	file_make(f->dir, "info", text);
}

static void end(struct fixture *f)
{
	scratch_remove(f->dir);
}

START_TEST(of_jbd2)
{
	struct fixture f;

	begin(&f, jbd2);
	ck_assert_int_eq(commit_sample(COMMIT_JBD2, f.path, &f.c), 0);
	ck_assert_uint_eq(f.c.commits, 1234);
	ck_assert_uint_eq(f.c.recent_usec, 13524);
	ck_assert_uint_eq(f.c.total_usec, 0);
	end(&f);
}
END_TEST

START_TEST(of_jbd2_before_the_first)
{
	struct fixture f;

	begin(&f, "0 transactions (0 requested), each up to 1024 blocks\n");
	ck_assert_int_eq(commit_sample(COMMIT_JBD2, f.path, &f.c), 0);
	ck_assert_uint_eq(f.c.commits, 0);
	ck_assert_uint_eq(f.c.recent_usec, 0);
	file_make(f.dir, "info", jbd2);
	ck_assert_int_eq(commit_sample(COMMIT_JBD2, f.path, &f.c), 0);
	ck_assert_uint_eq(f.c.commits, 1234);
	end(&f);
}
END_TEST

START_TEST(of_xfs)
{
	struct fixture f;

	begin(&f, xfs);
	ck_assert_int_eq(commit_sample(COMMIT_XFS, f.path, &f.c), 0);
	ck_assert_uint_eq(f.c.commits, 44);
	ck_assert_uint_eq(f.c.log_writes, 11);
	ck_assert_uint_eq(f.c.log_sectors, 22);
	ck_assert_uint_eq(f.c.recent_usec, 0);
	end(&f);
}
END_TEST

START_TEST(of_btrfs)
{
	struct fixture f;

	begin(&f, btrfs);
	ck_assert_int_eq(commit_sample(COMMIT_BTRFS, f.path, &f.c), 0);
	ck_assert_uint_eq(f.c.commits, 7);
	ck_assert_uint_eq(f.c.recent_usec, 12000);
	ck_assert_uint_eq(f.c.max_usec, 340000);
	ck_assert_uint_eq(f.c.total_usec, 900000);
	end(&f);
}
END_TEST

START_TEST(of_newer_btrfs)
{
	struct fixture f;

	begin(&f, "commits 7\ncur_commit_ms 5\nlast_commit_ms 12\nmax_commit_ms 340\n"
		  "total_commit_ms 900\n");
	ck_assert_int_eq(commit_sample(COMMIT_BTRFS, f.path, &f.c), 0);
	ck_assert_uint_eq(f.c.commits, 7);
	ck_assert_uint_eq(f.c.recent_usec, 12000);
	end(&f);
}
END_TEST

START_TEST(something_else_is_refused)
{
	static const struct {
		enum commit_kind kind;
		const char *text;
	} bad[] = {
		{ COMMIT_JBD2, "" },
		{ COMMIT_JBD2, "1234 transits" },
		{ COMMIT_JBD2, btrfs },
		{ COMMIT_XFS, "" },
		{ COMMIT_XFS, "trans 1 2 3\n" },
		{ COMMIT_XFS, "trans 1\nlog 1 2 3\nnext 4 5\n" },
		{ COMMIT_XFS, "trans 1\nlog 1 2 3 4 x\n" },
		{ COMMIT_XFS, "trans 1\ncatalog 1 2 3 4 5\n" },
		{ COMMIT_BTRFS, "" },
		{ COMMIT_BTRFS, "commits 7\nlast_commit_ms 12\n" },
		{ COMMIT_BTRFS, jbd2 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fixture f;

		begin(&f, bad[i].text);
		ck_assert_int_eq(commit_sample(bad[i].kind, f.path, &f.c), -EBADMSG);
		end(&f);
	}
}
END_TEST

START_TEST(nothing_there)
{
	struct fixture f;

	begin(&f, btrfs);
	ck_assert_int_eq(commit_sample(COMMIT_BTRFS, "/nowhere", &f.c), -ENOENT);
	ck_assert_int_eq(commit_sample(COMMIT_NONE, NULL, &f.c), -EINVAL);
	f.c.commits = 77;
	file_make(f.dir, "info", "garbage");
	ck_assert_int_eq(commit_sample(COMMIT_BTRFS, f.path, &f.c), -EBADMSG);
	ck_assert_uint_eq(f.c.commits, 77);
	end(&f);
}
END_TEST

START_TEST(names)
{
	ck_assert_str_eq(commit_kind_name(COMMIT_JBD2), "jbd2");
	ck_assert_str_eq(commit_kind_name(COMMIT_NONE), "none");
}
END_TEST

int main(void)
{
	const TTest *tests[] = { of_jbd2,        of_jbd2_before_the_first,  of_xfs, of_btrfs,
				 of_newer_btrfs, something_else_is_refused, names,  nothing_there };

	return run_case("commit-sensor", tests, sizeof(tests) / sizeof(tests[0]));
}
