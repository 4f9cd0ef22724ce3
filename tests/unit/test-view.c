/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "support.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/mounts.h"
#include "worker/caller-view.h"

/* A host's root, and what a service may have over it: a read-only home, a part of it that may be
 * written, a private /tmp, and something that hides it all. */
#define ROOT "10 1 8:1 / / rw shared:1 - ext4 /dev/a rw\n"
#define HOME_RO "11 10 8:1 /home /home ro - ext4 /dev/a rw\n"
#define HOME_RW "12 11 8:1 /home/u/rw /home/u/rw rw - ext4 /dev/a rw\n"
#define TMP "13 10 8:1 /tmp/private/tmp /tmp rw - ext4 /dev/a rw\n"
#define OVER_HOME "14 11 0:9 / /home rw - tmpfs none rw\n"
#define OVER_ROOT "15 10 0:8 / / rw - tmpfs none rw\n"
#define FILE_RO "16 10 8:1 /srv/f /srv/f ro - ext4 /dev/a rw\n"
#define SUPER_RO "17 10 8:2 / /mnt rw - ext4 /dev/b ro\n"

static struct view *view(const char *text)
{
	_cleanup_close_ int fd = memfd_create("table", MFD_CLOEXEC);
	struct mounts own = { 0 };
	struct view *v = NULL;

	ck_assert_int_eq(write(fd, text, strlen(text)), (int)strlen(text));
	ck_assert_int_eq(view_new(&v, fd, &own), 0);
	return v;
}

static struct location at(dev_t dev, const char *path)
{
	struct location l = { .dev = dev };

	(void)snprintf(l.path, sizeof(l.path), "%s", path);
	return l;
}

static void check_path(const char *text, const char *path, const char *location, int expected)
{
	struct location l = at(makedev(8, 1), location);
	struct view *v = view(text);

	ck_assert_msg(view_path(v, path, &l) == expected, "%s: %d", path, view_path(v, path, &l));
	view_free(v);
}

START_TEST(test_attack_04_what_a_path_leads_to)
{
	check_path(ROOT, "/home/u/x", "/home/u/x", 0);
	check_path(ROOT, "/", "", 0);
	check_path(ROOT HOME_RO, "/home/u/x", "/home/u/x", -EROFS);
	check_path(ROOT HOME_RO, "/homes/x", "/homes/x", 0);
	check_path(ROOT HOME_RO HOME_RW, "/home/u/rw/x", "/home/u/rw/x", 0);
	check_path(ROOT TMP, "/tmp/x", "/tmp/x", -ESTALE);
	check_path(ROOT TMP, "/tmp/x", "/tmp/private/tmp/x", 0);
	/* What is mounted below counts for nothing. */
	check_path(ROOT HOME_RO HOME_RW OVER_HOME, "/home/u/rw/x", "/home/u/rw/x", -ESTALE);
	/* Over the root itself nothing is seen by those who have it for their root. */
	check_path(ROOT OVER_ROOT, "/home/u", "/home/u", 0);
	check_path(SUPER_RO, "/mnt/x", "/x", -ESTALE);
	/* In a directory that is no mount's root. */
	check_path("", "/home/u", "/home/u", -ESTALE);
	check_path("20 7 0:5 / /proc rw - proc proc rw\n", "/home/u", "/home/u", -ESTALE);
}
END_TEST

static void check_writable(const char *text, unsigned minor_no, const char *location, bool expected)
{
	struct location l = at(makedev(8, minor_no), location);
	struct view *v = view(text);

	ck_assert_msg(view_writable(v, &l) == expected, "%s", location);
	view_free(v);
}

START_TEST(test_attack_04_what_may_be_written)
{
	check_writable(ROOT, 1, "/home/u", true);
	check_writable(ROOT, 2, "/home/u", false);
	check_writable(ROOT HOME_RO, 1, "/home/u", false);
	check_writable(ROOT HOME_RO, 1, "/homes", true);
	check_writable(ROOT HOME_RO HOME_RW, 1, "/home/u/rw", true);
	check_writable(ROOT HOME_RO HOME_RW, 1, "/home/u/rw/x", true);
	check_writable(ROOT HOME_RO HOME_RW, 1, "/home/u/r", false);
	check_writable(ROOT HOME_RO HOME_RW OVER_HOME, 1, "/home/u/rw/x", false);
	check_writable(ROOT TMP, 1, "/tmp/private/tmp/x", true);
	check_writable(ROOT TMP, 1, "/tmp/x", false);
	check_writable(ROOT SUPER_RO, 2, "/x", false);
	check_writable("", 1, "/x", false);
}
END_TEST

START_TEST(test_attack_04_what_is_mounted)
{
	struct view *v = view(ROOT HOME_RO HOME_RW FILE_RO);
	struct location l = at(makedev(8, 1), "/home/u"), base;

	ck_assert(view_mounts_at(v, &l));
	l = at(makedev(8, 1), "/home/u/rw");
	ck_assert(view_mounts_at(v, &l));
	l = at(makedev(8, 1), "/home/u/rw/x");
	ck_assert(!view_mounts_at(v, &l));
	l = at(makedev(8, 1), "/srv/f");
	ck_assert(view_mounts_at(v, &l));
	l = at(makedev(8, 1), "/srv/g");
	ck_assert(!view_mounts_at(v, &l));
	l = at(makedev(8, 2), "/home/u");
	ck_assert(!view_mounts_at(v, &l));
	/* From a directory down to another. */
	base = at(makedev(8, 1), "/home/u");
	l = at(makedev(8, 1), "/home/u/rw/x/y");
	ck_assert(view_mounts_between(v, &base, &l));
	l = at(makedev(8, 1), "/home/u/x/y");
	ck_assert(!view_mounts_between(v, &base, &l));
	l = at(makedev(8, 1), "/home/u");
	ck_assert(!view_mounts_between(v, &base, &l));
	l = at(makedev(8, 1), "/home/v/x");
	ck_assert(view_mounts_between(v, &base, &l));
	base = at(makedev(8, 1), "/home/u/rw");
	l = at(makedev(8, 1), "/home/u/rw/x");
	ck_assert(!view_mounts_between(v, &base, &l));
	view_free(v);
	/* Where something is mounted on a mount that is not to be seen, nothing is known. */
	v = view("20 7 0:5 / /proc rw - proc proc rw\n");
	ck_assert(view_mounts_at(v, &l));
	ck_assert(view_mounts_between(v, &base, &l));
	view_free(v);
}
END_TEST

/* Many mounts of a directory with a long path need more memory than their lines. */
START_TEST(test_attack_05_views_are_bounded)
{
	_cleanup_close_ int fd = memfd_create("table", MFD_CLOEXEC);
	struct mounts own = { 0 };
	struct view *v = NULL;
	char deep[4000];
	FILE *f = fdopen(dup(fd), "w");

	memset(deep, 'x', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	ck_assert_int_gt(fprintf(f, "10 1 8:1 /%s / rw - ext4 /dev/a rw\n", deep), 0);
	for (unsigned i = 11; i < 100000; i++)
		(void)fprintf(f, "%u 10 8:1 / /%u rw - ext4 /dev/a rw\n", i, i);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(view_new(&v, fd, &own), -E2BIG);
	ck_assert_ptr_null(v);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { test_attack_04_what_a_path_leads_to,
				       test_attack_04_what_may_be_written,
				       test_attack_04_what_is_mounted,
				       test_attack_05_views_are_bounded };

	return run_case("view", tests, ELEMENTSOF(tests));
}
