/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "subvolume.h"

#include <errno.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mounts.h"

bool subvolume_is(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == BTRFS_FIRST_FREE_OBJECTID;
}

static int subvolume_id(int fd, uint64_t *ret)
{
	struct btrfs_ioctl_ino_lookup_args args = { .objectid = BTRFS_FIRST_FREE_OBJECTID };

	if (ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0)
		return -errno;
	*ret = args.treeid;
	return 0;
}

enum mounted { MOUNTED_NOT, MOUNTED_INSIDE, MOUNTED_ITSELF };

/* What a mount has to do with the subvolume of this id, which is open at this path. */
static enum mounted mount_concerns(const struct mount *m, const char *path, uint64_t id)
{
	_cleanup_free_ char *subvolume = mount_value(m, "subvolid");

	if (subvolume && strtoull(subvolume, NULL, 10) == id)
		return MOUNTED_ITSELF;
	return path_beneath(m->target, path) ? MOUNTED_INSIDE : MOUNTED_NOT;
}

/* Destroying a subvolume detaches whatever is mounted in it: that is left to the walk, which stops
 * at mounts (I4). One that is mounted itself, somewhere else, is in use there. In doubt, the same.
 */
static enum mounted mounted(int fd)
{
	struct mounts mounts;
	char path[PATH_MAX + 1];
	enum mounted found = MOUNTED_NOT;
	uint64_t id = 0;

	if (fd_path(fd, path, sizeof(path)) < 0 || subvolume_id(fd, &id) < 0 ||
	    mounts_read(&mounts, "/proc/self/mountinfo") < 0)
		return MOUNTED_INSIDE;
	for (size_t i = 0; i < mounts.n; i++)
		found = MAX(found, mount_concerns(&mounts.v[i], path, id));
	mounts_done(&mounts);
	return found;
}

int subvolume_destroy(int dirfd, const char *name, int fd)
{
	struct btrfs_ioctl_vol_args args = { 0 };
	/* The directory of a root is only pinned (O_PATH), which takes no ioctl. */
	_cleanup_close_ int dir = fd_open_dir(dirfd, ".");
	enum mounted m = mounted(fd);

	if (m != MOUNTED_NOT)
		return m == MOUNTED_ITSELF ? -EBUSY : 0;
	if (strlen(name) > BTRFS_PATH_NAME_MAX)
		return 0;
	memcpy(args.name, name, strlen(name));
	return dir >= 0 && ioctl(dir, BTRFS_IOC_SNAP_DESTROY, &args) == 0;
}
