/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "engine/ways.h"
#include "support.h"
#include "util/macros.h"

START_TEST(each_family_is_known)
{
	static const struct {
		uint32_t magic;
		const char *family;
	} known[] = {
		{ 0xef53, "ext" },        { 0x58465342, "xfs" },     { 0x9123683e, "btrfs" },
		{ 0x01021994, "memory" }, { 0x794c7630, "overlay" }, { 0x65735546, "remote" },
		{ 0x6969, "remote" },     { 0x12345678, "other" },
	};
	struct ways w;

	for (size_t i = 0; i < ELEMENTSOF(known); i++) {
		ways_find(known[i].magic, "rw", &w);
		ck_assert_str_eq(w.family, known[i].family);
		ck_assert_ptr_nonnull(w.reason);
		ck_assert_uint_ge(w.dir_lanes, 1);
	}
}
END_TEST

START_TEST(truncation_only_where_leases_tell_the_truth)
{
	struct ways w;

	ways_find(0x794c7630, NULL, &w);
	ck_assert(!w.lease_truthful && w.shrink == SHRINK_NEVER);
	ways_find(0x65735546, NULL, &w);
	ck_assert(!w.lease_truthful && w.shrink == SHRINK_NEVER);
	ways_find(0xabcdef, NULL, &w);
	ck_assert(!w.lease_truthful && w.shrink == SHRINK_NEVER);
}
END_TEST

START_TEST(discard_changes_the_order_on_ext)
{
	struct ways w;

	ways_find(0xef53, "rw,relatime", &w);
	ck_assert(!w.ascending && w.shrink == SHRINK_TAIL);
	ways_find(0xef53, "rw,relatime,discard,errors=remount-ro", &w);
	ck_assert(w.ascending && w.shrink == SHRINK_HEAD);
	ck_assert_uint_eq(w.lanes_max, 1);
	ways_find(0xef53, "rw,nodiscard", &w);
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
	const TTest *tests[] = { each_family_is_known, truncation_only_where_leases_tell_the_truth,
				 discard_changes_the_order_on_ext, mount_options_are_words };

	return run_case("ways", tests, ELEMENTSOF(tests));
}
