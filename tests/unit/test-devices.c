/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The mount table and sysfs are made up; only the descriptor, its mount's number and its device
 * number are the kernel's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "pacing/sensors/device-set.h"
#include "support.h"
#include "base/fd.h"

struct fixture {
	char root[PATH_MAX], sys[PATH_MAX + 8], proc[PATH_MAX + 8];
	struct devices d;
	int fd;
	struct identity id; /* of fd, which is on the filesystem that root is on */
};

static void begin(struct fixture *f)
{
	scratch_make(f->root, sizeof(f->root));
	(void)snprintf(f->sys, sizeof(f->sys), "%s/sys", f->root);
	(void)snprintf(f->proc, sizeof(f->proc), "%s/proc", f->root);
	tree_make(f->root, "sys/ proc/ upper/");
	f->fd = open(f->root, O_PATH | O_CLOEXEC);
	ck_assert_int_eq(fd_identity(f->fd, "", &f->id), 0);
	ck_assert_uint_gt(f->id.mnt_id, 0);
	f->d = (struct devices){ 0 };
}

static void end(struct fixture *f)
{
	devices_done(&f->d);
	(void)close(f->fd);
	scratch_remove(f->root);
}

/* Makes up the mount table: this mount, of this type, and one before it. */
static void mounted(struct fixture *f, uint64_t id, const char *type, const char *options)
{
	char text[PATH_MAX + 256];

	(void)snprintf(text, sizeof(text),
		       "%llu 1 0:5 / /else rw - tmpfs other rw\n"
		       "%llu 1 0:6 / /mnt rw,relatime shared:1 - %s source rw%s\n",
		       (unsigned long long)(id + 1), (unsigned long long)id, type, options);
	file_make(f->proc, "self/mountinfo", text);
}

static void put(struct fixture *f, const char *dir, const char *name, const char *text)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "devices/%s/%s", dir, name);
	file_make(f->sys, path, text);
}

/* A disk that has the number of the filesystem, or another. */
static void disk(struct fixture *f, const char *name, uint64_t dev)
{
	char text[64], link[96];

	(void)snprintf(text, sizeof(text), "%u:%u", major(dev), minor(dev));
	(void)snprintf(link, sizeof(link), "dev/block/%s", text);
	put(f, name, "dev", text);
	(void)snprintf(text, sizeof(text), "../../devices/%s", name);
	link_make(f->sys, link, text);
}

static void check_key(const struct fixture *f, const char *format, uint64_t dev)
{
	char expected[64];

	(void)snprintf(expected, sizeof(expected), "%s%u:%u", format, major(dev), minor(dev));
	ck_assert_str_eq(f->d.key, expected);
}

START_TEST(ext4_on_a_disk)
{
	char path[PATH_MAX + 64];
	struct fixture f;

	begin(&f);
	mounted(&f, f.id.mnt_id, "ext4", "");
	disk(&f, "dm-1", f.id.dev);
	file_make(f.proc, "fs/jbd2/dm-1-12/info", "");
	ck_assert_int_eq(devices_find(&f.d, f.sys, f.proc, f.fd), 0);
	ck_assert_ptr_null(f.d.none);
	ck_assert_str_eq(f.d.type, "ext4");
	ck_assert_uint_eq(f.d.b.n, 1);
	ck_assert_str_eq(f.d.b.v[0].name, "dm-1");
	ck_assert(f.d.b.v[0].top && f.d.b.v[0].leaf);
	check_key(&f, "", f.id.dev);
	ck_assert_int_eq(f.d.commit_kind, COMMIT_JBD2);
	(void)snprintf(path, sizeof(path), "%s/fs/jbd2/dm-1-12/info", f.proc);
	ck_assert_str_eq(f.d.commit_path, path);
	end(&f);
}
END_TEST

START_TEST(ext4_without_journal)
{
	struct fixture f;

	begin(&f);
	mounted(&f, f.id.mnt_id, "ext4", "");
	disk(&f, "sda", f.id.dev);
	/* These are of other devices. */
	file_make(f.proc, "fs/jbd2/sda1-8/info", "");
	file_make(f.proc, "fs/jbd2/sda-8x/info", "");
	file_make(f.proc, "fs/jbd2/sda18/info", "");
	file_make(f.proc, "fs/jbd2/sda-/info", "");
	ck_assert_int_eq(devices_find(&f.d, f.sys, f.proc, f.fd), 0);
	ck_assert_int_eq(f.d.commit_kind, COMMIT_NONE);
	ck_assert_ptr_null(f.d.commit_path);
	end(&f);
}
END_TEST

START_TEST(xfs_on_two_disks)
{
	char path[PATH_MAX + 64];
	struct fixture f;

	begin(&f);
	mounted(&f, f.id.mnt_id, "xfs", "");
	disk(&f, "dm-0", f.id.dev);
	disk(&f, "sdb", makedev(8, 16));
	disk(&f, "sda", makedev(8, 0));
	put(&f, "sda/sda1", "dev", "8:1");
	put(&f, "sda/sda1", "partition", "1");
	put(&f, "sda/sda2", "dev", "8:2");
	put(&f, "sda/sda2", "partition", "2");
	link_make(f.sys, "dev/block/8:1", "../../devices/sda/sda1");
	link_make(f.sys, "dev/block/8:2", "../../devices/sda/sda2");
	/* Listed in this order or the reverse, they are not sorted. */
	link_make(f.sys, "devices/dm-0/slaves/sda2", "../../sda/sda2");
	link_make(f.sys, "devices/dm-0/slaves/sdb", "../../sdb");
	link_make(f.sys, "devices/dm-0/slaves/sda1", "../../sda/sda1");
	ck_assert_int_eq(devices_find(&f.d, f.sys, f.proc, f.fd), 0);
	ck_assert_uint_eq(f.d.b.n, 4);
	ck_assert_str_eq(f.d.key, "8:0+8:16"); /* sorted, and the disk of two partitions once */
	ck_assert_int_eq(f.d.commit_kind, COMMIT_XFS);
	(void)snprintf(path, sizeof(path), "%s/fs/xfs/dm-0/stats/stats", f.sys);
	ck_assert_str_eq(f.d.commit_path, path);
	end(&f);
}
END_TEST

START_TEST(without_device)
{
	static const struct {
		const char *type, *why;
		bool served;
	} types[] = { { "tmpfs", "in memory", false },
		      { "nfs4", "on a server", true },
		      { "fuse.sshfs", "served by a process (FUSE)", true },
		      { "btrfs", "no block device that this system shows", false },
		      { "newfs", "no block device that this system shows", false } };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct fixture f;

		begin(&f);
		mounted(&f, f.id.mnt_id, types[i].type, "");
		ck_assert_int_eq(devices_find(&f.d, f.sys, f.proc, f.fd), 0);
		ck_assert_uint_eq(f.d.b.n, 0);
		ck_assert_str_eq(f.d.none, types[i].why);
		ck_assert_int_eq(f.d.served, types[i].served);
		check_key(&f, "none:", f.id.dev);
		ck_assert_int_eq(f.d.commit_kind, COMMIT_NONE);
		end(&f);
	}
}
END_TEST

START_TEST(a_mount_out_of_sight)
{
	struct fixture f;

	begin(&f);
	mounted(&f, f.id.mnt_id + 1000, "ext4", "");
	disk(&f, "sda", f.id.dev);
	ck_assert_int_eq(devices_find(&f.d, f.sys, f.proc, f.fd), 0);
	ck_assert_str_eq(f.d.type, "");
	ck_assert_uint_eq(f.d.b.n, 1);
	ck_assert_int_eq(f.d.commit_kind, COMMIT_NONE);
	end(&f);
}
END_TEST

/* /proc stands for the overlay, the scratch directory for what its upper directory is on. */
static void check_overlay(const char *name, const char *upper)
{
	_cleanup_close_ int proc = open("/proc", O_PATH | O_CLOEXEC);
	char text[2 * PATH_MAX];
	struct identity over;
	struct fixture f;

	begin(&f);
	ck_assert_int_eq(fd_identity(proc, "", &over), 0);
	(void)snprintf(
		text, sizeof(text),
		"%llu 1 0:5 / /m rw - overlay overlay rw,lowerdir=/a,upperdir=%s/%s,workdir=/b\n"
		"%llu 1 0:6 / /n rw - ext3 /dev/sda rw\n",
		(unsigned long long)over.mnt_id, f.root, upper, (unsigned long long)f.id.mnt_id);
	file_make(f.proc, "self/mountinfo", text);
	disk(&f, "sda", f.id.dev);
	file_make(f.proc, "fs/jbd2/sda-8/info", "");
	if (name)
		tree_make(f.root, name);
	ck_assert_int_eq(devices_find(&f.d, f.sys, f.proc, proc), 0);
	ck_assert_str_eq(f.d.type, "overlay");
	if (name) {
		ck_assert_str_eq(f.d.upper_type, "ext3");
		ck_assert_uint_eq(f.d.b.n, 1);
		ck_assert(f.d.b.v[0].top);
		ck_assert_ptr_null(f.d.none);
		check_key(&f, "", f.id.dev);
		ck_assert_int_eq(f.d.commit_kind, COMMIT_JBD2);
	} else {
		ck_assert_str_eq(f.d.upper_type, "");
		ck_assert_uint_eq(f.d.b.n, 0);
		ck_assert_ptr_nonnull(strstr(f.d.none, "out of sight"));
		check_key(&f, "none:", over.dev);
	}
	end(&f);
}

START_TEST(an_overlay_is_where_its_upper_directory_is)
{
	check_overlay("upper1/", "upper1");
	check_overlay(NULL, "gone");
}
END_TEST

START_TEST(an_overlay_over_itself)
{
	char options[PATH_MAX + 32];
	struct fixture f;

	begin(&f);
	(void)snprintf(options, sizeof(options), ",upperdir=%s/upper", f.root);
	mounted(&f, f.id.mnt_id, "overlay", options);
	ck_assert_int_eq(devices_find(&f.d, f.sys, f.proc, f.fd), -ELOOP);
	end(&f);
}
END_TEST

START_TEST(a_loop_file_on_an_overlay)
{
	_cleanup_close_ int proc = open("/proc", O_PATH | O_CLOEXEC);
	char text[2 * PATH_MAX], image[PATH_MAX + 16];
	struct identity id;
	struct fixture f;

	/* /proc stands for what is mounted from the loop device; its file is on the overlay, whose
	 * upper directory is on the disk: all of these are one filesystem here. */
	begin(&f);
	ck_assert_int_eq(fd_identity(proc, "", &id), 0);
	(void)snprintf(image, sizeof(image), "%s/image", f.root);
	file_make(f.root, "image", "x");
	(void)snprintf(text, sizeof(text),
		       "%llu 1 0:5 / /m rw - xfs /dev/loop3 rw\n"
		       "%llu 1 0:6 / /n rw - overlay overlay rw,upperdir=/sys\n",
		       (unsigned long long)id.mnt_id, (unsigned long long)f.id.mnt_id);
	file_make(f.proc, "self/mountinfo", text);
	disk(&f, "loop3", id.dev);
	put(&f, "loop3", "loop/backing_file", image);
	ck_assert_int_eq(fd_identity(AT_FDCWD, "/sys", &id), 0);
	disk(&f, "sda", id.dev);
	ck_assert_int_eq(devices_find(&f.d, f.sys, f.proc, proc), 0);
	ck_assert_uint_eq(f.d.b.n, 2);
	ck_assert_str_eq(f.d.b.v[0].name, "loop3");
	ck_assert(f.d.b.v[0].top && !f.d.b.v[0].leaf);
	ck_assert_str_eq(f.d.b.v[1].name, "sda");
	ck_assert(!f.d.b.v[1].top && f.d.b.v[1].leaf);
	check_key(&f, "", id.dev);
	ck_assert_int_eq(f.d.commit_kind, COMMIT_XFS);
	end(&f);
}
END_TEST

START_TEST(what_is_no_descriptor)
{
	struct fixture f;

	begin(&f);
	ck_assert_int_eq(devices_find(&f.d, f.sys, f.proc, -1), -EBADF);
	end(&f);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { ext4_on_a_disk,         ext4_without_journal,
				 xfs_on_two_disks,       without_device,
				 a_mount_out_of_sight,   an_overlay_is_where_its_upper_directory_is,
				 an_overlay_over_itself, a_loop_file_on_an_overlay,
				 what_is_no_descriptor };

	return run_case("devices", tests, sizeof(tests) / sizeof(tests[0]));
}
