/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/guard/path-cache.h"
#include "support.h"
#include "base/macros.h"

static char *at(const char *dir, const char *name, char *buf)
{
	(void)snprintf(buf, PATH_MAX * 2, "%s%s", dir, name);
	return buf;
}

START_TEST(each_path_is_looked_at_once)
{
	char dir[PATH_MAX], path[PATH_MAX * 2];
	struct path_cache l = { 0 };
	struct cached_path *file, *link;
	struct stat st;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "d/ d/f d/l>f");
	ck_assert_int_eq(lstat(at(dir, "/d/f", path), &st), 0);
	file = path_cache_stat(&l, path, strlen(path));
	ck_assert_int_eq(file->error, 0);
	ck_assert_uint_eq(file->id.ino, st.st_ino);
	ck_assert(!S_ISLNK(file->id.mode));
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_ptr_eq(path_cache_stat(&l, path, strlen(path)), file);
	ck_assert_int_eq(file->error, 0);
	/* The link is gone where it led to, and is there itself. */
	at(dir, "/d/l", path);
	link = path_cache_stat(&l, path, strlen(path));
	ck_assert_int_eq(link->error, 0);
	ck_assert(S_ISLNK(link->id.mode));
	/* The first bytes of a path are another path. */
	ck_assert_int_eq(path_cache_stat(&l, path, strlen(path) - 2)->error, 0);
	ck_assert_int_eq(path_cache_stat(&l, path, strlen(dir) - 1)->error, -ENOENT);
	at(dir, "/d/l/x", path);
	ck_assert_int_eq(path_cache_stat(&l, path, strlen(path))->error, -ENOENT);
	path_cache_done(&l);
	ck_assert_ptr_null(l.tree);
	scratch_remove(dir);
}
END_TEST

START_TEST(plain_paths)
{
	static const struct {
		const char *name;
		bool plain;
	} cases[] = {
		{ "", true },       { "/d", true },        { "/d/e/f", true }, { "/d/.x", true },
		{ "/d/..x", true }, { "/d/...", true },    { "/d/l", false },  { "/m/e/f", false },
		{ "/m", false },    { "/d/", false },      { "//d", false },   { "/d//e", false },
		{ "/d/.", false },  { "/./d", false },     { "/d/..", false }, { "/d/../d", false },
		{ "/none", false }, { "/d/e/f/x", false },
	};
	char real[PATH_MAX], dir[PATH_MAX], path[PATH_MAX * 2];
	struct path_cache l = { 0 };

	scratch_make(dir, sizeof(dir));
	ck_assert_ptr_nonnull(realpath(dir, real));
	tree_make(real, "d/ d/.x d/..x d/... d/e/ d/e/f d/l>e m>d");
	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		at(real, cases[i].name, path);
		ck_assert_msg(path_cache_is_plain(&l, path, strlen(path)) == cases[i].plain, "%s",
			      cases[i].name);
	}
	ck_assert(path_cache_is_plain(&l, "/", 1));
	ck_assert(!path_cache_is_plain(&l, "proc", 4));
	ck_assert(!path_cache_is_plain(&l, "", 0));
	ck_assert(!path_cache_is_plain(&l, "//", 2));
	path_cache_done(&l);
	scratch_remove(dir);
}
END_TEST

START_TEST(resolving)
{
	static const char *const names[] = {
		"", "/d", "/d/e/f", "/d/l", "/m/e/f", "/m/l/f", "/d/../m/", "//d/./e//f",
	};
	char real[PATH_MAX], dir[PATH_MAX], path[PATH_MAX * 2];
	struct path_cache l = { 0 };
	const char *found = NULL;

	scratch_make(dir, sizeof(dir));
	tree_make(dir, "d/ d/e/ d/e/f d/l>e m>d loop>loop gone>none");
	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		ck_assert_ptr_nonnull(realpath(at(dir, names[i], path), real));
		for (unsigned again = 0; again < 2; again++) {
			ck_assert_int_eq(path_cache_resolve(&l, path, &found), 0);
			ck_assert_str_eq(found, real);
		}
	}
	ck_assert_int_eq(path_cache_resolve(&l, at(dir, "/gone", path), &found), -ENOENT);
	ck_assert_int_eq(path_cache_resolve(&l, at(dir, "/loop", path), &found), -ELOOP);
	ck_assert_int_eq(path_cache_resolve(&l, at(dir, "/d/e/f/x", path), &found), -ENOTDIR);
	path_cache_done(&l);
	scratch_remove(dir);
}
END_TEST

START_TEST(parents)
{
	ck_assert_uint_eq(path_parent("/a/bc", 5), 2);
	ck_assert_uint_eq(path_parent("/a/bc", 2), 1);
	ck_assert_uint_eq(path_parent("/", 1), 1);
	ck_assert_uint_eq(path_parent("/a//b", 5), 3);
	ck_assert_uint_eq(path_parent("/a//b", 3), 2);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { each_path_is_looked_at_once, plain_paths, resolving,
				       parents };

	return run_case("path-cache", tests, ELEMENTSOF(tests));
}
