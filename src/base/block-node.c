/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block-node.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "macros.h"

/* The name of the node that devtmpfs makes, from the device's uevent file. */
static void node_name(dev_t number, char *ret, size_t size)
{
	char path[64], line[128];
	FILE *f;

	*ret = '\0';
	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/uevent", major(number),
		       minor(number));
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "DEVNAME=", strlen("DEVNAME=")) == 0)
			(void)snprintf(ret, size, "/dev/%.*s",
				       (int)strcspn(line + strlen("DEVNAME="), "\n"),
				       line + strlen("DEVNAME="));
	if (f)
		(void)fclose(f);
}

struct block_node block_node_find(dev_t number)
{
	struct block_node n = { .number = number };

	(void)snprintf(n.path[0], sizeof(n.path[0]), "/dev/block/%u:%u", major(number),
		       minor(number));
	node_name(number, n.path[1], sizeof(n.path[1]));
	return n;
}

int block_node_open(const struct block_node *n, uint64_t *ret_size)
{
	int fd, r = -ENODEV;
	struct stat st;

	for (size_t i = 0; i < ELEMENTSOF(n->path); i++) {
		fd = open(n->path[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0) {
			r = -errno;
			continue;
		}
		if (fstat(fd, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == n->number &&
		    ioctl(fd, BLKGETSIZE64, ret_size) == 0)
			return fd;
		r = -ENODEV;
		(void)close(fd);
	}
	return r;
}
