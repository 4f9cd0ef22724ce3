/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is to go is looked at once more, and stays if it has changed since the scan began. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/retention.h"
#include "policy/scan/scan.h"
#include "support.h"
#include "base/macros.h"

static size_t recheck(const char *dir, int64_t began_after_nsec)
{
	struct policy_entry e = { .name = "f", .series = "", .disposition = DISPOSITION_MAX_AGE };
	const struct scan_by by = { 0 };
	const struct policy p = { 0 };
	struct scan s = SCAN_NONE;
	struct stat st;
	size_t n;

	s.basefd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_eq(fstatat(s.basefd, "f", &st, 0), 0);
	s.began_nsec = st.st_ctim.tv_sec * NSEC_PER_SEC + st.st_ctim.tv_nsec + began_after_nsec;
	e.ino = st.st_ino;
	ck_assert_int_eq(entries_add(&s.entries, &e), 0);
	n = scan_recheck(&s, &p, &by);
	ck_assert(entry_goes(&s.entries.v[0]) == (n == 0));
	scan_done(&s);
	return n;
}

/* The clock of a filesystem moves every few milliseconds: that may be before or after. */
START_TEST(what_changes_as_a_scan_begins_stays)
{
	char dir[64];

	scratch_make(dir, sizeof(dir));
	file_make(dir, "f", "x");
	ck_assert_uint_eq(recheck(dir, -1), 1);
	ck_assert_uint_eq(recheck(dir, 0), 1);
	ck_assert_uint_eq(recheck(dir, 1), 0);
	scratch_remove(dir);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { what_changes_as_a_scan_begins_stays };

	return run_case("scan-recheck", tests, ELEMENTSOF(tests));
}
