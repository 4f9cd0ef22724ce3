/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/guard/path-intake.h"
#include "engine/guard/roots.h"
#include "support.h"
#include "base/macros.h"

static int split(const char *path, char **dir, char *name)
{
	const char *why = NULL;
	bool slash;
	int r = intake_split(path, dir, name, &slash, &why);

	if (r < 0)
		ck_assert_ptr_nonnull(why);
	return r;
}

START_TEST(paths_split)
{
	static const struct {
		const char *path, *dir, *name;
	} good[] = {
		{ "a", "", "a" },        { "a/", "", "a" },           { "/a", "/", "a" },
		{ "/a/b", "/a", "b" },   { "//a//b//", "//a/", "b" }, { "./a", ".", "a" },
		{ "a/./b", "a/.", "b" }, { "...", "", "..." },        { "..a/b", "..a", "b" },
	};
	char *dir, name[256];

	for (size_t i = 0; i < ELEMENTSOF(good); i++) {
		ck_assert_int_eq(split(good[i].path, &dir, name), 0);
		ck_assert_str_eq(dir, good[i].dir);
		ck_assert_str_eq(name, good[i].name);
		free(dir);
	}
}
END_TEST

START_TEST(ambiguous_paths_are_refused)
{
	static const char *const bad[] = { "",     "/",      "//",   "///",  ".",
					   "./",   ".///",   "a/.",  "a/..", "..",
					   "../a", "a/../b", "/../", "/..",  "a/./" };
	char *dir = NULL, name[256], *long_name = malloc(PATH_MAX + 2);

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert_int_lt(split(bad[i], &dir, name), 0);
	memset(long_name, 'x', 256);
	long_name[256] = '\0';
	ck_assert_int_eq(split(long_name, &dir, name), -ENAMETOOLONG);
	long_name[255] = '\0';
	ck_assert_int_eq(split(long_name, &dir, name), 0);
	free(dir);
	for (int i = 0; i < PATH_MAX; i++)
		long_name[i] = i % 2 ? '/' : 'd';
	long_name[PATH_MAX] = '\0';
	ck_assert_int_eq(split(long_name, &dir, name), -ENAMETOOLONG);
	free(long_name);
}
END_TEST

static void no_refusal(const char *path, const char *why, int error, void *userdata)
{
	(void)userdata;
	ck_abort_msg("%s refused: %s (%d)", path, why, error);
}

START_TEST(lists_are_grouped_by_directory)
{
	static const char list[] = "a/1\nb/1\na/2\n\nb/2\na/3\nlast";
	struct roots r = { 0 };
	const char *why = NULL;
	char *bad = NULL;

	ck_assert_int_eq(roots_add_list(&r, list, sizeof(list) - 1, '\n', &bad, &why), 0);
	ck_assert_uint_eq(r.n, 3);
	ck_assert_uint_eq(r.n_names, 6);
	ck_assert_str_eq(r.v[0]->dir, "a");
	ck_assert_uint_eq(r.v[0]->names.n, 3);
	ck_assert_str_eq(r.v[2]->dir, "");
	roots_done(&r);
}
END_TEST

START_TEST(a_bad_line_refuses_the_list)
{
	static const char dots[] = "a/1\na/../b\n", nul[] = "a\0b\n";
	struct roots r = { 0 };
	const char *why = NULL;
	char *bad = NULL;

	ck_assert_int_lt(roots_add_list(&r, dots, sizeof(dots) - 1, '\n', &bad, &why), 0);
	ck_assert_str_eq(bad, "a/../b");
	free(bad);
	ck_assert_int_eq(roots_add_list(&r, nul, sizeof(nul) - 1, '\n', &bad, &why), -EINVAL);
	free(bad);
	roots_done(&r);
}
END_TEST

START_TEST(groups_whose_directory_is_gone_are_missing)
{
	char dir[PATH_MAX], list[PATH_MAX * 2];
	struct protect *p = NULL;
	struct roots r = { 0 };
	const char *why = NULL;
	char *bad = NULL;
	int n;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "d/ d/x");
	n = snprintf(list, sizeof(list), "%s/d/x\n%s/none/y\n%s/none/z\n", dir, dir, dir);
	ck_assert_int_eq(protect_new(&p, NULL, &bad), 0);
	ck_assert_int_eq(roots_add_list(&r, list, (size_t)n, '\n', &bad, &why), 0);
	ck_assert_int_eq(roots_resolve(&r, p, no_refusal, NULL), 0);
	ck_assert_uint_eq(r.missing, 2);
	ck_assert(r.v[0]->accepted);
	ck_assert(!r.v[1]->accepted);
	roots_done(&r);
	protect_free(p);
	scratch_remove(dir);
}
END_TEST

START_TEST(the_system_is_protected)
{
	static const char *const paths[] = {
		"/bin", "/usr",     "/usr/bin/env",      "/etc/passwd", "/home",
		"/var", "/var/lib", "/proc/self/status", "/sys/block",  "/dev",
		"/tmp", "/root",    "/dev/shm",
	};
	struct protect *p = NULL;
	char *culprit = NULL;
	const char *why;

	ck_assert_int_eq(protect_new(&p, NULL, &culprit), 0);
	for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
		struct target t;
		int r;

		why = NULL;
		r = intake(p, paths[i], &t, &why);
		ck_assert_msg(r == -EPERM || r == -ELOOP ||
				      (r == -ENOENT && access(paths[i], F_OK)),
			      "%s: %d", paths[i], r);
		ck_assert_ptr_nonnull(why);
	}
	protect_free(p);
}
END_TEST

/* A directory that holds what is protected and is protected itself, in whatever order. */
START_TEST(content_is_protected_around_what_is_protected)
{
	char dir[PATH_MAX], outer[PATH_MAX], inner[PATH_MAX], beside[PATH_MAX];
	const char *const extras[][3] = { { inner, outer, NULL }, { outer, inner, NULL } };
	const char *why;
	struct target t;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "up/ up/keep/ up/other/");
	(void)snprintf(outer, sizeof(outer), "%.4000s/up", dir);
	(void)snprintf(inner, sizeof(inner), "%.4000s/up/keep", dir);
	(void)snprintf(beside, sizeof(beside), "%.4000s/up/other", dir);
	for (size_t i = 0; i < ELEMENTSOF(extras); i++) {
		struct protect *p = NULL;
		char *culprit = NULL;

		ck_assert_int_eq(protect_new(&p, extras[i], &culprit), 0);
		ck_assert_int_eq(intake(p, beside, &t, &why), -EPERM);
		ck_assert_str_eq(why, "is protected by the configuration");
		ck_assert_int_eq(intake(p, outer, &t, &why), -EPERM);
		protect_free(p);
	}
	scratch_remove(dir);
}
END_TEST

START_TEST(extra_paths_are_protected_with_content_and_ancestors)
{
	char dir[PATH_MAX], kept[PATH_MAX], inside[PATH_MAX], beside[PATH_MAX];
	const char *extra[] = { kept, NULL };
	struct protect *p = NULL;
	char *culprit = NULL;
	const char *why;
	struct target t;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "up/ up/keep/ up/keep/f up/other/");
	(void)snprintf(kept, sizeof(kept), "%.4000s/up/keep", dir);
	(void)snprintf(inside, sizeof(inside), "%.4000s/up/keep/f", dir);
	(void)snprintf(beside, sizeof(beside), "%.4000s/up/other", dir);
	ck_assert_int_eq(protect_new(&p, extra, &culprit), 0);
	ck_assert_int_eq(intake(p, kept, &t, &why), -EPERM);
	ck_assert_int_eq(intake(p, inside, &t, &why), -EPERM);
	ck_assert_int_eq(intake(p, dir, &t, &why), -EPERM);
	ck_assert_int_eq(intake(p, beside, &t, &why), 0);
	ck_assert_str_eq(t.name, "other");
	target_done(&t);
	protect_free(p);
	scratch_remove(dir);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { paths_split,
				 ambiguous_paths_are_refused,
				 lists_are_grouped_by_directory,
				 a_bad_line_refuses_the_list,
				 groups_whose_directory_is_gone_are_missing,
				 the_system_is_protected,
				 content_is_protected_around_what_is_protected,
				 extra_paths_are_protected_with_content_and_ancestors };

	return run_case("path-intake", tests, ELEMENTSOF(tests));
}
