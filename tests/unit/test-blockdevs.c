/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "pacing/sensors/blockdevs.h"
#include "support.h"

struct fixture {
	char sys[PATH_MAX];
	struct blockdevs b;
};

static void begin(struct fixture *f)
{
	scratch_make(f->sys, sizeof(f->sys));
	f->b = (struct blockdevs){ 0 };
}

static void end(struct fixture *f)
{
	blockdevs_done(&f->b);
	scratch_remove(f->sys);
}

static void attribute(struct fixture *f, const char *dir, const char *name, const char *text)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "devices/%s/%s", dir, name);
	file_make(f->sys, path, text);
}

/* A device in a directory beneath sys/devices, and the link to it by its number. */
static void device(struct fixture *f, const char *dir, const char *number)
{
	char link[64], target[512];

	(void)snprintf(link, sizeof(link), "dev/block/%s", number);
	(void)snprintf(target, sizeof(target), "../../devices/%s", dir);
	link_make(f->sys, link, target);
	(void)snprintf(target, sizeof(target), "%s\n", number);
	attribute(f, dir, "dev", target);
}

static void disk(struct fixture *f, const char *dir, const char *number, bool rotating,
		 const char *discard)
{
	device(f, dir, number);
	attribute(f, dir, "queue/rotational", rotating ? "1\n" : "0\n");
	attribute(f, dir, "queue/discard_max_bytes", discard);
}

static void slave(struct fixture *f, const char *of, const char *name, const char *dir)
{
	char link[512], target[512];

	(void)snprintf(link, sizeof(link), "devices/%s/slaves/%s", of, name);
	(void)snprintf(target, sizeof(target), "../../%s", dir);
	link_make(f->sys, link, target);
}

static const struct blockdev *named(const struct fixture *f, const char *name)
{
	for (size_t i = 0; i < f->b.n; i++)
		if (strcmp(f->b.v[i].name, name) == 0)
			return &f->b.v[i];
	return NULL;
}

START_TEST(a_disk)
{
	struct fixture f;

	begin(&f);
	disk(&f, "sda", "8:0", true, "0\n");
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(8, 0)), 0);
	ck_assert_uint_eq(f.b.n, 1);
	ck_assert_str_eq(f.b.v[0].name, "sda");
	ck_assert_str_eq(f.b.v[0].disk_name, "sda");
	ck_assert_uint_eq(f.b.v[0].disk, makedev(8, 0));
	ck_assert(f.b.v[0].top && f.b.v[0].leaf && f.b.v[0].rotating);
	ck_assert_ptr_null(f.b.v[0].backing_file);
	ck_assert(blockdevs_rotating(&f.b));
	ck_assert(!blockdevs_discard(&f.b));
	end(&f);
}
END_TEST

START_TEST(none_of_that_number)
{
	struct fixture f;

	begin(&f);
	disk(&f, "sda", "8:0", true, "0\n");
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(0, 45)), -ENODEV);
	ck_assert_uint_eq(f.b.n, 0);
	end(&f);
}
END_TEST

START_TEST(a_partition_is_as_its_disk)
{
	struct fixture f;

	begin(&f);
	disk(&f, "sda", "8:0", true, "4096\n");
	device(&f, "sda/sda1", "8:1");
	attribute(&f, "sda/sda1", "partition", "1\n");
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(8, 1)), 0);
	ck_assert_uint_eq(f.b.n, 1);
	ck_assert_str_eq(f.b.v[0].name, "sda1");
	ck_assert_str_eq(f.b.v[0].disk_name, "sda");
	ck_assert_uint_eq(f.b.v[0].disk, makedev(8, 0));
	ck_assert(f.b.v[0].leaf && f.b.v[0].rotating);
	ck_assert_uint_eq(f.b.v[0].discard_max_bytes, 4096);
	end(&f);
}
END_TEST

START_TEST(device_mapper_over_two)
{
	struct fixture f;

	begin(&f);
	disk(&f, "sda", "8:0", false, "4096\n");
	device(&f, "sda/sda2", "8:2");
	attribute(&f, "sda/sda2", "partition", "2\n");
	disk(&f, "sdb", "8:16", true, "0\n");
	disk(&f, "dm-0", "253:0", false, "8192\n");
	slave(&f, "dm-0", "sda2", "sda/sda2");
	slave(&f, "dm-0", "sdb", "sdb");
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(253, 0)), 0);
	ck_assert_uint_eq(f.b.n, 3);
	ck_assert_str_eq(f.b.v[0].name, "dm-0");
	ck_assert(f.b.v[0].top && !f.b.v[0].leaf);
	ck_assert(!named(&f, "sda2")->top && named(&f, "sda2")->leaf);
	ck_assert(!named(&f, "sdb")->top && named(&f, "sdb")->leaf);
	/* One of the leaves turns; what counts for a discard is the top. */
	ck_assert(blockdevs_rotating(&f.b) && blockdevs_discard(&f.b));
	end(&f);
}
END_TEST

START_TEST(raid_over_device_mapper)
{
	struct fixture f;

	begin(&f);
	disk(&f, "sda", "8:0", false, "0\n");
	disk(&f, "dm-0", "253:0", false, "0\n");
	disk(&f, "dm-1", "253:1", false, "0\n");
	disk(&f, "md0", "9:0", false, "0\n");
	slave(&f, "md0", "dm-0", "dm-0");
	slave(&f, "md0", "dm-1", "dm-1");
	slave(&f, "dm-0", "sda", "sda");
	slave(&f, "dm-1", "sda", "sda");
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(9, 0)), 0);
	ck_assert_uint_eq(f.b.n, 4); /* the disk beneath both once */
	ck_assert(named(&f, "sda")->leaf && !named(&f, "dm-0")->leaf && !named(&f, "dm-1")->leaf);
	/* Were the filesystem on the disk, too, that would be a top one. */
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(8, 0)), 0);
	ck_assert_uint_eq(f.b.n, 4);
	ck_assert(named(&f, "sda")->top && !named(&f, "dm-0")->top);
	end(&f);
}
END_TEST

START_TEST(a_loop_device)
{
	char file[PATH_MAX + 16], number[32], dir[32];
	struct fixture f;
	struct stat st;

	begin(&f);
	(void)snprintf(file, sizeof(file), "%s/image", f.sys);
	file_make(f.sys, "image", "x");
	ck_assert_int_eq(stat(file, &st), 0);
	disk(&f, "loop0", "7:0", false, "0\n");
	attribute(&f, "loop0", "loop/backing_file", file);
	/* What the image lies on is no block device. */
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(7, 0)), 0);
	ck_assert_uint_eq(f.b.n, 1);
	ck_assert(f.b.v[0].leaf);
	ck_assert_str_eq(f.b.v[0].backing_file, file);
	blockdevs_done(&f.b);
	/* Now it is. */
	(void)snprintf(number, sizeof(number), "%u:%u", major(st.st_dev), minor(st.st_dev));
	(void)snprintf(dir, sizeof(dir), "sda");
	disk(&f, dir, number, true, "0\n");
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(7, 0)), 0);
	ck_assert_uint_eq(f.b.n, 2);
	ck_assert(!named(&f, "loop0")->leaf && named(&f, "sda")->leaf && !named(&f, "sda")->top);
	end(&f);
}
END_TEST

START_TEST(btrfs_over_several)
{
	struct fixture f;

	begin(&f);
	disk(&f, "sda", "8:0", false, "0\n");
	disk(&f, "sdb", "8:16", false, "0\n");
	link_make(f.sys, "fs/btrfs/0-1-2/devices/sda", "../../../../devices/sda");
	link_make(f.sys, "fs/btrfs/0-1-2/devices/sdb", "../../../../devices/sdb");
	ck_assert_int_eq(blockdevs_add_btrfs(&f.b, f.sys, "9-9-9"), -ENOENT);
	ck_assert_int_eq(blockdevs_add_btrfs(&f.b, f.sys, "0-1-2"), 0);
	ck_assert_uint_eq(f.b.n, 2);
	ck_assert(named(&f, "sda")->top && named(&f, "sdb")->top);
	end(&f);
}
END_TEST

START_TEST(taking_over)
{
	struct blockdevs other = { 0 };
	struct fixture f;

	begin(&f);
	disk(&f, "sda", "8:0", false, "0\n");
	disk(&f, "loop0", "7:0", false, "0\n");
	attribute(&f, "loop0", "loop/backing_file", "/nowhere\n");
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(8, 0)), 0);
	ck_assert_int_eq(blockdevs_add(&other, f.sys, makedev(8, 0)), 0);
	ck_assert_int_eq(blockdevs_add(&other, f.sys, makedev(7, 0)), 0);
	blockdevs_take(&f.b, &other);
	ck_assert_uint_eq(other.n, 0);
	ck_assert_uint_eq(f.b.n, 2);
	ck_assert(named(&f, "sda")->top && !named(&f, "loop0")->top);
	ck_assert_str_eq(named(&f, "loop0")->backing_file, "/nowhere");
	end(&f);
}
END_TEST

START_TEST(whether_it_counts)
{
	struct fixture f;

	begin(&f);
	disk(&f, "sda", "8:0", false, "0\n");
	device(&f, "sda/sda1", "8:1");
	attribute(&f, "sda/sda1", "partition", "1\n");
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(8, 0)), 0);
	ck_assert(f.b.v[0].counts); /* nothing says otherwise */
	blockdevs_done(&f.b);
	attribute(&f, "sda", "queue/iostats", "0\n");
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(8, 0)), 0);
	ck_assert(!f.b.v[0].counts);
	/* A partition counts as its disk does. */
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(8, 1)), 0);
	ck_assert(!f.b.v[1].counts);
	blockdevs_done(&f.b);
	attribute(&f, "sda", "queue/iostats", "1\n");
	ck_assert_int_eq(blockdevs_add(&f.b, f.sys, makedev(8, 0)), 0);
	ck_assert(f.b.v[0].counts);
	end(&f);
}
END_TEST

int main(void)
{
	const TTest *tests[] = { a_disk,
				 none_of_that_number,
				 a_partition_is_as_its_disk,
				 device_mapper_over_two,
				 raid_over_device_mapper,
				 a_loop_device,
				 btrfs_over_several,
				 taking_over,
				 whether_it_counts };

	return run_case("blockdevs", tests, sizeof(tests) / sizeof(tests[0]));
}
