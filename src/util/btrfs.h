/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* btrfs: what a filesystem is called in sysfs. */
#pragma once

#include <stddef.h>

/* Writes the filesystem's UUID as text (37 bytes). fd is any directory or regular file on it, open
 * for reading. Returns 0 or a negative errno. */
int btrfs_uuid(int fd, char *buf, size_t len);
