/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "btrfs.h"

#include <errno.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <sys/ioctl.h>

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
