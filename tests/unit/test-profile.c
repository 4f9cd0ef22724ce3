/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "engine/filesystem/profile.h"
#include "support.h"
#include "base/macros.h"
#include "base/mounts.h"

START_TEST(each_family_is_known)
{
	static const struct {
		uint32_t magic;
		const char *family;
	} known[] = {
		{ 0xef53, "ext" },        { 0x58465342, "xfs" },     { 0x9123683e, "btrfs" },
		{ 0x01021994, "memory" }, { 0x794c7630, "overlay" }, { 0x65735546, "fuse" },
		{ 0x6969, "nfs" },        { 0xfe534d42, "remote" },  { 0x00c36400, "cephfs" },
		{ 0x12345678, "other" },
	};
	struct fs_profile w;

	for (size_t i = 0; i < ELEMENTSOF(known); i++) {
		profile_find(known[i].magic, NULL, &w);
		ck_assert_str_eq(w.family, known[i].family);
		ck_assert_ptr_nonnull(w.reason);
		ck_assert_uint_ge(w.dir_lanes, 1);
	}
}
END_TEST

/* FUSE has one f_type for all; what is mounted says which of them it is. */
START_TEST(clusters_are_told_by_their_mounts)
{
	static const struct {
		const char *type, *source, *family;
	} mounts[] = {
		{ "fuse", "mfs#10.0.0.1:9421", "moosefs" },
		{ "fuse.mfs", "mfs#master:9421", "moosefs" },
		{ "moosefs", "master:9421", "moosefs" },
		{ "fuse.ceph-fuse", "ceph-fuse", "cephfs" },
		{ "fuse.sshfs", "mfsuser@host:", "fuse" },
		{ "fuse", "/dev/fuse", "fuse" },
	};
	struct fs_profile w;

	for (size_t i = 0; i < ELEMENTSOF(mounts); i++) {
		struct mount m = { .options = "rw",
				   .super_options = "rw",
				   .type = mounts[i].type,
				   .source = mounts[i].source };

		profile_find(0x65735546, &m, &w);
		ck_assert_str_eq(w.family, mounts[i].family);
		ck_assert(w.server && !w.lease_truthful && w.shrink == SHRINK_NEVER);
		ck_assert_int_eq(w.same_thread, strcmp(w.family, "moosefs") == 0);
		ck_assert_int_eq(w.sync_dirs, strcmp(w.family, "cephfs") == 0);
	}
}
END_TEST

START_TEST(truncation_only_where_leases_tell_the_truth)
{
	struct fs_profile w;

	profile_find(0x794c7630, NULL, &w);
	ck_assert(!w.lease_truthful && w.shrink == SHRINK_NEVER);
	profile_find(0x65735546, NULL, &w);
	ck_assert(!w.lease_truthful && w.shrink == SHRINK_NEVER);
	profile_find(0xabcdef, NULL, &w);
	ck_assert(!w.lease_truthful && w.shrink == SHRINK_NEVER);
}
END_TEST

START_TEST(access_times_are_of_local_filesystems)
{
	static const uint32_t told[] = { 0xef53, 0x58465342, 0x9123683e, 0x01021994 },
			      hidden[] = { 0x794c7630, 0x65735546, 0x6969, 0xabcdef };
	struct fs_profile w;

	for (size_t i = 0; i < ELEMENTSOF(told); i++) {
		profile_find(told[i], NULL, &w);
		ck_assert(w.atime_truthful);
		profile_find(hidden[i], NULL, &w);
		ck_assert(!w.atime_truthful);
	}
	ck_assert(!profile_keeps_atime(-1));
}
END_TEST

START_TEST(inodes_are_fixed_where_that_is_known)
{
	static const uint32_t fixed[] = { 0xef53, 0x01021994 }, grow[] = { 0x58465342, 0xabcdef };
	struct fs_profile w;

	for (size_t i = 0; i < ELEMENTSOF(fixed); i++) {
		profile_find(fixed[i], NULL, &w);
		ck_assert(w.inodes_fixed);
		profile_find(grow[i], NULL, &w);
		ck_assert(!w.inodes_fixed);
	}
	ck_assert(!profile_fixes_inodes(-1));
}
END_TEST

START_TEST(discard_changes_the_order_on_ext)
{
	static const struct mount plain = { .options = "rw,relatime", .super_options = "rw" },
				  discard = { .options = "rw,relatime",
					      .super_options = "rw,discard,errors=remount-ro" },
				  nodiscard = { .options = "rw", .super_options = "rw,nodiscard" };
	struct fs_profile w;

	profile_find(0xef53, &plain, &w);
	ck_assert(!w.ascending && w.shrink == SHRINK_TAIL);
	profile_find(0xef53, &discard, &w);
	ck_assert(w.ascending && w.shrink == SHRINK_HEAD);
	ck_assert_uint_eq(w.lanes_max, 1);
	profile_find(0xef53, &nodiscard, &w);
	ck_assert(!w.ascending);
}
END_TEST

START_TEST(mount_options_are_words)
{
	ck_assert(mount_option("rw,discard=async,x", "discard"));
	ck_assert(mount_option("discard", "discard"));
	ck_assert(!mount_option("rw,nodiscard", "discard"));
	ck_assert(!mount_option("discards", "discard"));
	ck_assert(!mount_option(NULL, "discard"));
	ck_assert(!mount_option("", "discard"));
}
END_TEST

int main(void)
{
	const TTest *tests[] = { each_family_is_known,
				 clusters_are_told_by_their_mounts,
				 truncation_only_where_leases_tell_the_truth,
				 access_times_are_of_local_filesystems,
				 inodes_are_fixed_where_that_is_known,
				 discard_changes_the_order_on_ext,
				 mount_options_are_words };

	return run_case("profile", tests, ELEMENTSOF(tests));
}
