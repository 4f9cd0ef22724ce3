/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-target.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/mounts.h"
#include "pacing/sensors/device-set.h"

static enum trim_family family_of(const char *type)
{
	static const struct {
		const char *type;
		enum trim_family family;
	} known[] = {
		{ "ext2", TRIM_EXT },      { "ext3", TRIM_EXT },       { "ext4", TRIM_EXT },
		{ "xfs", TRIM_XFS },       { "btrfs", TRIM_BTRFS },    { "vfat", TRIM_EXACT },
		{ "msdos", TRIM_EXACT },   { "exfat", TRIM_EXACT },    { "ntfs3", TRIM_EXACT },
		{ "f2fs", TRIM_WHOLE },    { "bcachefs", TRIM_WHOLE }, { "jfs", TRIM_WHOLE },
		{ "nilfs2", TRIM_WHOLE },  { "ocfs2", TRIM_WHOLE },    { "gfs2", TRIM_WHOLE },
		{ "hfsplus", TRIM_WHOLE },
	};

	for (size_t i = 0; i < ELEMENTSOF(known); i++)
		if (strcmp(known[i].type, type) == 0)
			return known[i].family;
	return TRIM_NONE;
}

/* A text that is cut off where it is too long. */
static void copy(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from ? from : "");
}

static bool is_crypt(const struct blockdev *b)
{
	char path[128];
	_cleanup_free_ char *uuid = NULL;

	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/dm/uuid", major(b->dev),
		       minor(b->dev));
	return fd_read_file(path, 256, &uuid) > 0 && strncmp(uuid, "CRYPT-", 6) == 0;
}

/* What its own devices do decides: those pass discards on, or do not. */
static void devices_look(struct trim_target *t, const struct devices *d)
{
	bool discards = false;

	for (size_t i = 0; i < d->b.n; i++) {
		const struct blockdev *b = &d->b.v[i];

		if (!b->top)
			continue;
		discards = discards || b->discard_max_bytes > 0;
		if (t->device[0])
			continue;
		copy(t->device, sizeof(t->device), b->name);
		copy(t->backing, sizeof(t->backing), b->backing_file);
		t->crypt = is_crypt(b);
	}
	if (!discards)
		t->obstacle = TRIM_NO_DISCARD;
}

static void obstacle_find(struct trim_target *t, const struct devices *d, const struct mount *m)
{
	t->obstacle = TRIM_POSSIBLE;
	if (strcmp(t->type, "overlay") == 0)
		t->obstacle = TRIM_OVERLAY;
	else if (d->b.n == 0)
		t->obstacle = TRIM_NO_DEVICE;
	else if (t->family == TRIM_NONE)
		t->obstacle = TRIM_UNKNOWN;
	else if (mount_filesystem_read_only(m))
		t->obstacle = TRIM_READ_ONLY;
	else
		devices_look(t, d);
	copy(t->none, sizeof(t->none), d->none);
}

int trim_target_find(struct trim_target *ret, int fd)
{
	struct trim_target t = { 0 };
	struct devices devices = { 0 };
	struct mounts mounts = { 0 };
	const struct mount *m = NULL;
	struct statfs sfs;
	uint64_t id;
	int r = fd_mount_id(fd, &id);

	if (r >= 0)
		r = mounts_read(&mounts, "/proc/self/mountinfo");
	if (r >= 0) {
		m = mounts_by_id(&mounts, id);
		r = m ? devices_find(&devices, "/sys", "/proc", fd) : -ESTALE;
	}
	if (r >= 0 && fstatfs(fd, &sfs) < 0)
		r = -errno;
	if (r >= 0) {
		copy(t.type, sizeof(t.type), m->type);
		t.family = family_of(t.type);
		t.dev = m->dev;
		t.node = block_node_find(m->dev);
		t.block = (uint32_t)sfs.f_bsize;
		t.size_bytes = (uint64_t)sfs.f_blocks * (uint64_t)sfs.f_bsize;
		t.free_bytes = (uint64_t)sfs.f_bfree * (uint64_t)sfs.f_bsize;
		obstacle_find(&t, &devices, m);
		*ret = t;
	}
	devices_done(&devices);
	mounts_done(&mounts);
	return r;
}

enum trim_bound trim_target_bound(const struct trim_target *t, uint64_t min_bytes)
{
	switch (t->family) {
	case TRIM_EXT:
		return TRIM_BY_RUN;
	case TRIM_XFS:
		return TRIM_BY_SIZE;
	case TRIM_EXACT:
		/* Cut into ranges, what is free would be in pieces below that size. */
		return min_bytes > 0 ? TRIM_UNBOUNDED : TRIM_BY_SIZE;
	case TRIM_BTRFS:
		return TRIM_BY_CHUNK;
	case TRIM_WHOLE:
	case TRIM_NONE:
		break;
	}
	return TRIM_UNBOUNDED;
}

const char *trim_bound_name(enum trim_bound b)
{
	static const char *const names[] = { "by-size", "by-run", "by-group", "by-chunk",
					     "unbounded" };

	static_assert(ELEMENTSOF(names) == TRIM_BOUNDS, "a name for each");
	assert(b < TRIM_BOUNDS);
	return names[b];
}

const char *trim_bound_text(enum trim_bound b)
{
	static const char *const texts[] = {
		"in steps of any size",
		"in steps of free runs, which the kernel does not divide: up to a block group",
		"by block groups, as the free runs in them are not known",
		"by chunks, of a gibibyte or more; first, once after a mount, all not allocated",
		"all at once: the kernel, or this filesystem, divides it in no other way",
	};

	static_assert(ELEMENTSOF(texts) == TRIM_BOUNDS, "a text for each");
	assert(b < TRIM_BOUNDS);
	return texts[b];
}
