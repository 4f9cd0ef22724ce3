/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "btrfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "fd.h"

int btrfs_uuid(int fd, char *buf, size_t len)
{
	struct btrfs_ioctl_fs_info_args args = { 0 };
	size_t at = 0;

	if (ioctl(fd, BTRFS_IOC_FS_INFO, &args) < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(args.fsid); i++) {
		int n = snprintf(buf + at, len - at, "%s%02x",
				 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", args.fsid[i]);

		if (n < 0 || (size_t)n >= len - at)
			return -ENAMETOOLONG;
		at += (size_t)n;
	}
	return 0;
}

bool btrfs_has(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

int btrfs_commit(int fd)
{
	_cleanup_close_ int own = -1;
	__u64 transaction = 0;
	int r = ioctl(fd, BTRFS_IOC_START_SYNC, &transaction);

	if (r < 0 && errno == EBADF) {
		own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (own < 0)
			return -errno;
		fd = own;
		r = ioctl(fd, BTRFS_IOC_START_SYNC, &transaction);
	}
	/* Unlike syncfs(2), this leaves alone what other processes have written and not flushed. */
	return r < 0 || ioctl(fd, BTRFS_IOC_WAIT_SYNC, &transaction) < 0 ? -errno : 0;
}

/* From linux/btrfs.h of 6.13. */
struct subvol_wait {
	__u64 subvolid;
	__u32 mode;
	__u32 count;
};

#define SUBVOL_SYNC_WAIT _IOW(BTRFS_IOCTL_MAGIC, 65, struct subvol_wait)
#define SUBVOL_SYNC_COUNT 2

int btrfs_deleted_subvolumes(int fd)
{
	struct subvol_wait wait = { .mode = SUBVOL_SYNC_COUNT };

	return ioctl(fd, SUBVOL_SYNC_WAIT, &wait) < 0 ? -errno : (int)wait.count;
}
