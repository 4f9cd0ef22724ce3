/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "surroundings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "engine/filesystem/profile.h"
#include "base/btrfs.h"
#include "base/fd.h"
#include "base/mounts.h"

/* Fills in the fields that come from the mount table. */
static void mount_find(uint64_t mnt_id, struct surroundings *s)
{
	struct mounts mounts;
	const struct mount *m;

	if (mounts_read(&mounts, "/proc/self/mountinfo") < 0)
		return;
	m = mounts_by_id(&mounts, mnt_id);
	if (m) {
		s->type = strdup(m->type);
		s->mount_point = strdup(m->target);
		s->source = strdup(m->source);
		s->options = mount_all_options(m);
	}
	mounts_done(&mounts);
}

/* A btrfs spans several devices and gives its files device numbers of its own, so the devices are
 * found by the UUID of the filesystem. */
static void btrfs_find(int dirfd, struct surroundings *s)
{
	_cleanup_close_ int fd = fd_open_dir(dirfd, ".");
	char uuid[40];

	if (fd >= 0 && btrfs_uuid(fd, uuid, sizeof(uuid)) >= 0)
		(void)blockdevs_add_btrfs(&s->devices, "/sys", uuid);
}

int surroundings_find(int fd, struct surroundings *ret)
{
	struct surroundings s = { 0 };
	struct identity id;
	struct statfs sfs;
	int r = fd_identity(fd, "", &id);

	if (r < 0)
		return r;
	if (fstatfs(fd, &sfs) < 0)
		return -errno;
	s.size_bytes = (uint64_t)sfs.f_blocks * (uint64_t)sfs.f_bsize;
	s.free_bytes = (uint64_t)sfs.f_bfree * (uint64_t)sfs.f_bsize;
	mount_find(id.mnt_id, &s);
	s.mounted_with_discard = mount_option(s.options, "discard");
	if (s.type && strcmp(s.type, "btrfs") == 0)
		btrfs_find(fd, &s);
	else
		(void)blockdevs_add(&s.devices, "/sys", id.dev);
	*ret = s;
	return 0;
}

void surroundings_done(struct surroundings *s)
{
	free(s->type);
	free(s->mount_point);
	free(s->source);
	free(s->options);
	blockdevs_done(&s->devices);
	*s = (struct surroundings){ 0 };
}
