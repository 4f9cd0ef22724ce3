/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "engine/guard/locations.h"
#include "support.h"
#include "base/macros.h"
#include "base/mounts.h"

static struct location at(dev_t dev, const char *path)
{
	struct location l = { .dev = dev };

	(void)snprintf(l.path, sizeof(l.path), "%s", path);
	return l;
}

static void check_location(const struct mount *m, const char *path, dev_t dev, const char *expected)
{
	struct location l;

	ck_assert_int_eq(mount_location(m, path, &l), 0);
	ck_assert_uint_eq(l.dev, dev);
	ck_assert_str_eq(l.path, expected);
}

START_TEST(test_attack_01_locations_of_paths)
{
	struct mount top = { .dev = 7, .root = "/", .target = "/", .type = "ext4" };
	struct mount part = { .dev = 7, .root = "/keep/mine", .target = "/alias", .type = "ext4" };
	struct mount gone = { .dev = 7, .root = "/a//deleted", .target = "/m", .type = "ext4" };
	struct mount nfs = {
		.dev = 9, .root = "/", .target = "/n", .type = "nfs4", .source = "server:/e/"
	};
	char deep[PATH_MAX + 16];
	struct location l;

	check_location(&top, "/", 7, "");
	check_location(&top, "/keep/mine", 7, "/keep/mine");
	check_location(&part, "/alias", 7, "/keep/mine");
	check_location(&part, "/alias/", 7, "/keep/mine");
	check_location(&part, "/alias/d", 7, "/keep/mine/d");
	/* Whatever superblock it has. */
	check_location(&nfs, "/n/d", 0, "server:/e/d");
	ck_assert_int_eq(mount_location(&part, "/aliases/d", &l), -ESTALE);
	ck_assert_int_eq(mount_location(&part, "/", &l), -ESTALE);
	ck_assert_int_eq(mount_location(&gone, "/m/d", &l), -ESTALE);
	memset(deep, 'x', sizeof(deep));
	memcpy(deep, "/alias/", 7);
	deep[PATH_MAX - 1] = '\0';
	ck_assert_int_eq(mount_location(&part, deep, &l), -ENAMETOOLONG);
	l = at(7, "/keep");
	ck_assert(mount_root_beneath(&part, &l));
	ck_assert(!mount_root_beneath(&top, &l));
	l = at(7, "/keep/mine");
	ck_assert(mount_root_beneath(&part, &l));
	l = at(7, "/keep/min");
	ck_assert(!mount_root_beneath(&part, &l));
	l = at(8, "/keep");
	ck_assert(!mount_root_beneath(&part, &l));
}
END_TEST

START_TEST(test_attack_14_layers)
{
	static const struct {
		const char *options, *layers[5];
	} all[] = {
		{ "rw,lowerdir=/l,upperdir=/u,workdir=/w", { "/l", "/u" } },
		{ "rw,lowerdir=/a:/b::/c,upperdir=u\\040v,x=y", { "/a", "/b", "", "/c", "u v" } },
		{ "rw,lowerdir+=/a,lowerdir+=/b,datadir+=/c", { "/a", "/b", "/c" } },
		/* What has an escape of the overlay's own is not taken apart. */
		{ "lowerdir=/a\\134,upperdir=/b", { "/b" } },
		{ "ro,lower=/a:b,workdir=/u:/v", { NULL } },
		{ "", { NULL } },
	};

	for (size_t i = 0; i < ELEMENTSOF(all); i++) {
		struct mount m = { .type = "overlay", .super_options = all[i].options };
		size_t from = 0, n = 0;
		char buf[PATH_MAX];

		while (mount_layer(&m, &from, buf, sizeof(buf))) {
			ck_assert_uint_lt(n, ELEMENTSOF(all[i].layers));
			ck_assert_msg(all[i].layers[n] && strcmp(buf, all[i].layers[n]) == 0,
				      "%zu: %s", i, buf);
			n++;
		}
		ck_assert(n == ELEMENTSOF(all[i].layers) || !all[i].layers[n]);
	}
}
END_TEST

START_TEST(test_attack_01_found_around_and_beneath)
{
	static const struct {
		dev_t dev;
		const char *path;
		bool content;
	} added[] = {
		{ 1, "/a/keep", true },  { 1, "/a-b", true },    { 1, "", false },
		{ 1, "/a/home", false }, { 2, "", true },        { 3, "/x/y/z", false },
		{ 1, "/a/both", false }, { 1, "/a/both", true },
	};
	struct locations p = { 0 };
	struct location l;

	for (size_t i = 0; i < ELEMENTSOF(added); i++) {
		l = at(added[i].dev, added[i].path);
		ck_assert_int_eq(locations_add(&p, &l, added[i].content, "why"), 0);
	}
	locations_sort(&p);
	for (size_t i = 0; i < ELEMENTSOF(added); i++) {
		l = at(added[i].dev, added[i].path);
		ck_assert_str_eq(locations_at(&p, &l), "why");
	}
	l = at(1, "/a/keep/d/e");
	ck_assert_str_eq(locations_around(&p, &l), "why");
	l = at(1, "/a/both/d");
	ck_assert_str_eq(locations_around(&p, &l), "why");
	l = at(1, "/a/keep");
	ck_assert_str_eq(locations_around(&p, &l), "why");
	ck_assert(!locations_beneath(&p, &l));
	l = at(1, "/a/keeper");
	ck_assert_ptr_null(locations_around(&p, &l));
	ck_assert_ptr_null(locations_at(&p, &l));
	l = at(1, "/a/home/d");
	ck_assert_ptr_null(locations_around(&p, &l));
	l = at(1, "/a");
	ck_assert(locations_beneath(&p, &l));
	ck_assert_ptr_null(locations_at(&p, &l));
	l = at(1, "");
	ck_assert(locations_beneath(&p, &l));
	l = at(2, "/anything");
	ck_assert_str_eq(locations_around(&p, &l), "why");
	ck_assert(!locations_beneath(&p, &l));
	l = at(3, "/x/y");
	ck_assert(locations_beneath(&p, &l));
	l = at(4, "");
	ck_assert(!locations_beneath(&p, &l));
	ck_assert_ptr_null(locations_around(&p, &l));
	locations_done(&p);
	ck_assert_ptr_null(locations_at(&p, &l));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { test_attack_01_locations_of_paths, test_attack_14_layers,
				       test_attack_01_found_around_and_beneath };

	return run_case("locations", tests, ELEMENTSOF(tests));
}
