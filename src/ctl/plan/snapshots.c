/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "snapshots.h"

#include <errno.h>
#include <endian.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <string.h>
#include <sys/ioctl.h>

static bool is_zero(const uint8_t *uuid)
{
	static const uint8_t zero[BTRFS_UUID_SIZE];

	return memcmp(uuid, zero, sizeof(zero)) == 0;
}

int subvolume_info(int fd, struct subvolume *ret)
{
	struct btrfs_ioctl_get_subvol_info_args args = { 0 };

	if (ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &args) < 0)
		return -errno;
	*ret = (struct subvolume){ .id = args.treeid, .is_snapshot = !is_zero(args.parent_uuid) };
	memcpy(ret->uuid, args.uuid, sizeof(ret->uuid));
	memcpy(ret->parent_uuid, args.parent_uuid, sizeof(ret->parent_uuid));
	return 0;
}

/* Is the subvolume of this root item a snapshot of one of these, and none of them itself? */
static bool shares(uint64_t id, const void *data, uint32_t len, const struct subvolume *of,
		   size_t n)
{
	struct btrfs_root_item item = { 0 };
	bool child = false;

	/* Items from before Linux 3.6 end before the UUIDs, and know of none. */
	memcpy(&item, data, len < sizeof(item) ? len : sizeof(item));
	if (is_zero(item.parent_uuid))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (of[i].id == id)
			return false;
		child = child || memcmp(of[i].uuid, item.parent_uuid, sizeof(of[i].uuid)) == 0;
	}
	/* One that has been deleted and waits for the cleaner has no reference any more. */
	return child && le32toh(item.refs) > 0;
}

int64_t snapshots_elsewhere(int fd, const struct subvolume *of, size_t n)
{
	struct btrfs_ioctl_search_args args = { .key = {
							.tree_id = BTRFS_ROOT_TREE_OBJECTID,
							.min_objectid = BTRFS_FIRST_FREE_OBJECTID,
							.max_objectid = BTRFS_LAST_FREE_OBJECTID,
							.min_type = BTRFS_ROOT_ITEM_KEY,
							.max_type = BTRFS_ROOT_ITEM_KEY,
							.max_offset = UINT64_MAX,
							.max_transid = UINT64_MAX,
						} };
	struct btrfs_ioctl_search_header h = { 0 };
	int64_t count = 0;

	for (;;) {
		size_t at = 0;

		args.key.nr_items = 4096;
		if (ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0)
			return -errno;
		if (args.key.nr_items == 0)
			return count;
		for (uint32_t i = 0; i < args.key.nr_items; i++) {
			if (at + sizeof(h) > sizeof(args.buf))
				return -EIO;
			memcpy(&h, args.buf + at, sizeof(h));
			at += sizeof(h);
			if (h.len > sizeof(args.buf) - at)
				return -EIO;
			if (h.type == BTRFS_ROOT_ITEM_KEY)
				count += shares(h.objectid, args.buf + at, h.len, of, n);
			at += h.len;
		}
		/* Its item comes first of all with its number; what refers to it is passed over. */
		args.key.min_objectid = h.objectid + 1;
	}
}
