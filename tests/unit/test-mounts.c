/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "support.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/mounts.h"

#define LINE "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"

/* Reads a table that is made up. */
static int read_text(const char *text, struct mounts *m)
{
	char dir[PATH_MAX], path[PATH_MAX + 16];
	int r;

	scratch_make(dir, sizeof(dir));
	file_make(dir, "mountinfo", text);
	(void)snprintf(path, sizeof(path), "%s/mountinfo", dir);
	*m = (struct mounts){ 0 };
	r = mounts_read(m, path);
	scratch_remove(dir);
	return r;
}

static void check_one(const char *text, const struct mount *expected)
{
	struct mounts m;

	ck_assert_int_eq(read_text(text, &m), 0);
	ck_assert_uint_eq(m.n, 1);
	ck_assert_uint_eq(m.v[0].id, expected->id);
	ck_assert_uint_eq(m.v[0].parent, expected->parent);
	ck_assert_uint_eq(m.v[0].dev, expected->dev);
	ck_assert_str_eq(m.v[0].root, expected->root);
	ck_assert_str_eq(m.v[0].target, expected->target);
	ck_assert_str_eq(m.v[0].options, expected->options);
	ck_assert_str_eq(m.v[0].type, expected->type);
	ck_assert_str_eq(m.v[0].source, expected->source);
	ck_assert_str_eq(m.v[0].super_options, expected->super_options);
	mounts_done(&m);
}

START_TEST(lines)
{
	/* The example of proc(5). */
	check_one(
		"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n",
		&(struct mount){ 36, 35, makedev(98, 0), "/mnt1", "/mnt2", "rw,noatime", "ext3",
				 "/dev/root", "rw,errors=continue" });
	/* No optional fields, and several. */
	check_one(LINE, &(struct mount){ 1, 0, makedev(8, 1), "/", "/", "rw", "ext4", "/dev/sda1",
					 "rw" });
	check_one(
		"4294967295 1 0:4095 / /m ro shared:7 master:1 propagate_from:2 - tmpfs none rw\n",
		&(struct mount){ UINT32_MAX, 1, makedev(0, 4095), "/", "/m", "ro", "tmpfs", "none",
				 "rw" });
	/* A root that is no path. */
	check_one("2 1 0:4 net:[4026531840] /run/netns/a rw shared:9 - nsfs nsfs rw\n",
		  &(struct mount){ 2, 1, makedev(0, 4), "net:[4026531840]", "/run/netns/a", "rw",
				   "nsfs", "nsfs", "rw" });
	/* mount -t tmpfs "" /m; options with a space that a filesystem did not escape. */
	check_one("2 1 0:4 / /m rw - tmpfs  rw,a=b c\n",
		  &(struct mount){ 2, 1, makedev(0, 4), "/", "/m", "rw", "tmpfs", "", "rw,a=b c" });
}
END_TEST

START_TEST(escapes)
{
	check_one("2 1 0:4 /a\\040b\\011 /c\\012d\\134040\\043 rw - fuse.x\\040y s\\040t "
		  "rw,o=\\040\n",
		  &(struct mount){ 2, 1, makedev(0, 4), "/a b\t", "/c\nd\\040#", "rw", "fuse.x y",
				   "s t", "rw,o=\\040" });
	/* What a filesystem says of itself need not be escaped well; a name ends as it stands. */
	check_one("2 1 0:4 / /m\\040(deleted) rw - cifs \\\\host\\9 rw\n",
		  &(struct mount){ 2, 1, makedev(0, 4), "/", "/m (deleted)", "rw", "cifs",
				   "\\\\host\\9", "rw" });
}
END_TEST

START_TEST(unescaping)
{
	static const struct {
		const char *from, *to;
		bool good;
	} cases[] = {
		{ "", "", true },
		{ "plain", "plain", true },
		{ "\\134\\134", "\\\\", true },
		{ "\\1341", "\\1", true },
		{ "\\377", "\377", true },
		{ "a\\", "a\\", false },
		{ "\\04", "\\04", false },
		{ "\\400", "\\400", false },
		{ "\\048", "\\048", false },
		{ "\\x20\\040", "\\x20 ", false },
		{ "a\\000b", "a", false },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		char s[32];

		(void)snprintf(s, sizeof(s), "%s", cases[i].from);
		ck_assert_msg(mounts_unescape(s) == cases[i].good, "%s", cases[i].from);
		ck_assert_str_eq(s, cases[i].to);
	}
}
END_TEST

/* One line that is not understood spoils the whole table. */
START_TEST(bad_lines)
{
	static const char *const bad[] = {
		"\n",
		"x\n",
		"1\n",
		"1 0 8:1 / / rw\n",
		"1 0 8:1 / / rw -\n",
		"1 0 8:1 / / rw - ext4\n",
		"1 0 8:1 / / rw - ext4 /dev/sda1\n",
		"1 0 8:1 / / rw - ext4 /dev/sda1 \n",
		"1 0 8:1 / / rw ext4 /dev/sda1 rw\n",
		"1 0 8:1 / / rw shared:1  - ext4 /dev/sda1 rw\n",
		"1 0 8:1 / / rw -  /dev/sda1 rw\n",
		"1 0 8:1 / /  - ext4 /dev/sda1 rw\n",
		"1 0 8:1 / m rw - ext4 /dev/sda1 rw\n",
		"1 0 8:1 /  rw - ext4 /dev/sda1 rw\n",
		"1 0 8:1  / rw - ext4 /dev/sda1 rw\n",
		"1 0 8:1 / /\\04 rw - ext4 /dev/sda1 rw\n",
		"1 0 8:1 /\\ / rw - ext4 /dev/sda1 rw\n",
		"1 0 8:1 / /a\\000b rw - ext4 /dev/sda1 rw\n",
		"1 0 8 / / rw - ext4 /dev/sda1 rw\n",
		"1 0 8:x / / rw - ext4 /dev/sda1 rw\n",
		"1 0 8: / / rw - ext4 /dev/sda1 rw\n",
		" 1 0 8:1 / / rw - ext4 /dev/sda1 rw\n",
		"-1 0 8:1 / / rw - ext4 /dev/sda1 rw\n",
		"4294967296 0 8:1 / / rw - ext4 /dev/sda1 rw\n",
		"99999999999999999999999 0 8:1 / / rw - ext4 /dev/sda1 rw\n",
		"1 0 8:1 / / rw - ext4 /dev/sda1 rw", /* cut off */
		"1 0 8:1 / / rw - ext",
	};

	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		struct mounts m;
		char text[256];

		(void)snprintf(text, sizeof(text), LINE "%s", bad[i]);
		ck_assert_msg(read_text(text, &m) == -EBADMSG, "after a good line: %s", bad[i]);
		ck_assert_ptr_null(m.text);
		ck_assert_int_eq(read_text(bad[i], &m), -EBADMSG);
	}
}
END_TEST

START_TEST(no_table)
{
	struct mounts m = { 0 };

	ck_assert_int_eq(read_text("", &m), -ENODATA);
	ck_assert_int_eq(mounts_read(&m, "/nonexistent/mountinfo"), -ENOENT);
	ck_assert_ptr_null(m.v);
	ck_assert_ptr_null(m.text);
}
END_TEST

START_TEST(finding)
{
	struct mounts m;

	ck_assert_int_eq(read_text("1 0 8:1 / / rw - ext4 a rw\n"
				   "2 1 8:2 / /m rw - ext4 b rw\n"
				   "3 2 8:1 /x /m/n rw - ext4 c rw\n"
				   "4 1 8:3 / /m rw - ext4 d rw\n",
				   &m),
			 0);
	ck_assert_str_eq(mounts_by_id(&m, 3)->source, "c");
	ck_assert_ptr_null(mounts_by_id(&m, 0));
	ck_assert_str_eq(mounts_by_dev(&m, makedev(8, 1))->source, "c");
	ck_assert_ptr_null(mounts_by_dev(&m, makedev(8, 4)));
	ck_assert_str_eq(mounts_by_path(&m, "/")->source, "a");
	ck_assert_str_eq(mounts_by_path(&m, "/mm/n")->source, "a");
	ck_assert_str_eq(mounts_by_path(&m, "/m")->source, "d");
	ck_assert_str_eq(mounts_by_path(&m, "/m/o")->source, "d");
	ck_assert_str_eq(mounts_by_path(&m, "/m/n/o")->source, "c");
	mounts_done(&m);
	ck_assert_int_eq(read_text("2 1 8:2 / /m rw - ext4 b rw\n", &m), 0);
	ck_assert_ptr_null(mounts_by_path(&m, "/n"));
	mounts_done(&m);
}
END_TEST

START_TEST(options)
{
	static const struct {
		const char *own, *super, *all;
	} cases[] = {
		{ "rw", "rw", "rw" },
		{ "rw,relatime", "rw,discard", "rw,relatime,discard" },
		{ "ro,relatime", "rw", "ro,relatime" },
		{ "rw", "ro,size=4k", "ro,size=4k" },
		{ "rw,sync", "rw,sync", "rw,sync" },
		{ "relatime", "rows=1", "rw,relatime,rows=1" },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct mount m = { .options = cases[i].own, .super_options = cases[i].super };
		_cleanup_free_ char *all = mount_all_options(&m);

		ck_assert_str_eq(all, cases[i].all);
	}
}
END_TEST

START_TEST(values)
{
	static const struct mount m = {
		.options = "rw,own=1",
		.super_options = "rw,xupper=1,upper,upper=/a\\054b\\040c,upper=/d,empty=,last=9",
	};
	_cleanup_free_ char *upper = mount_value(&m, "upper"), *empty = mount_value(&m, "empty"),
			    *last = mount_value(&m, "last");

	ck_assert_str_eq(upper, "/a,b c");
	ck_assert_str_eq(empty, "");
	ck_assert_str_eq(last, "9");
	ck_assert_ptr_null(mount_value(&m, "own"));
	ck_assert_ptr_null(mount_value(&m, "rw"));
	ck_assert_ptr_null(mount_value(&m, "las"));
}
END_TEST

/* The kernel's own table is understood, and says of "/proc" what stat does. */
START_TEST(this_process)
{
	struct mounts m;
	struct identity id;
	const struct mount *proc;

	ck_assert_int_eq(mounts_read(&m, "/proc/self/mountinfo"), 0);
	ck_assert_int_eq(fd_identity(-1, "/proc", &id), 0);
	proc = mounts_by_id(&m, id.mnt_id);
	ck_assert_ptr_nonnull(proc);
	ck_assert_str_eq(proc->target, "/proc");
	ck_assert_str_eq(proc->type, "proc");
	ck_assert_uint_eq(proc->dev, id.dev);
	ck_assert_ptr_eq(mounts_by_path(&m, "/proc/self"), proc);
	mounts_done(&m);
}
END_TEST

START_TEST(paths_beneath)
{
	static const struct {
		const char *path, *top;
		bool is;
	} cases[] = {
		{ "/a", "/a", true },    { "/a/b", "/a", true }, { "/ab", "/a", false },
		{ "/a", "/a/b", false }, { "/", "/", true },     { "/a", "/", true },
		{ "/b/a", "/a", false }, { "/a/", "/a", true },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++)
		ck_assert_msg(path_beneath(cases[i].path, cases[i].top) == cases[i].is, "%s in %s",
			      cases[i].path, cases[i].top);
}
END_TEST

START_TEST(paths_joined)
{
	char path[8] = "/ab";

	ck_assert(!path_join(path, sizeof(path), "cdef")); /* no room for the NUL */
	ck_assert_str_eq(path, "/ab");
	ck_assert(path_join(path, sizeof(path), "cde"));
	ck_assert_str_eq(path, "/ab/cde");
	(void)strcpy(path, "/");
	ck_assert(path_join(path, sizeof(path), "abcdef"));
	ck_assert_str_eq(path, "/abcdef");
}
END_TEST

START_TEST(mounts_in_a_directory)
{
	char a[] = "/a", ab[] = "/a/b", acb[] = "/ac";
	struct mount v[] = { { .target = a }, { .target = ab }, { .target = acb } };
	struct mounts m = { .v = v, .n = 1 };

	ck_assert(mounts_beneath(&m, "/a", /* strictly= */ false));
	ck_assert(!mounts_beneath(&m, "/a", /* strictly= */ true));
	ck_assert(mounts_beneath(&m, "/", /* strictly= */ true));
	m.n = 2;
	ck_assert(mounts_beneath(&m, "/a", /* strictly= */ true));
	m = (struct mounts){ .v = v + 2, .n = 1 };
	ck_assert(!mounts_beneath(&m, "/a", /* strictly= */ false));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { paths_beneath, paths_joined, mounts_in_a_directory,
				       lines,         escapes,      unescaping,
				       bad_lines,     no_table,     finding,
				       options,       values,       this_process };

	return run_case("mounts", tests, ELEMENTSOF(tests));
}
