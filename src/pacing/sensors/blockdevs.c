/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "blockdevs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"

/* Reads a file of one line beneath dir. Returns it without its newline (malloc'ed), or NULL. */
static char *line_read(const char *dir, const char *name)
{
	_cleanup_free_ char *path = NULL;
	char *line = NULL;
	ssize_t len;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		return NULL;
	len = fd_read_file(path, KiB(64), &line);
	if (len > 0 && line[len - 1] == '\n')
		line[len - 1] = '\0';
	return line;
}

static uint64_t number_read(const char *dir, const char *name)
{
	_cleanup_free_ char *line = line_read(dir, name);

	return line ? strtoull(line, NULL, 10) : 0;
}

static bool has(const char *dir, const char *name)
{
	_cleanup_free_ char *path = NULL;

	return asprintf(&path, "%s/%s", dir, name) >= 0 && access(path, F_OK) == 0;
}

static struct blockdev *find(struct blockdevs *b, dev_t dev)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->v[i].dev == dev)
			return &b->v[i];
	return NULL;
}

static void push(struct blockdevs *b, dev_t dev)
{
	if (find(b, dev))
		return;
	if (b->n < BLOCKDEVS_MOST)
		b->v[b->n++] = (struct blockdev){ .dev = dev, .disk = dev };
}

/* "254:0" as the file `dev` of a block device has it. */
static bool number_parse(const char *s, dev_t *ret)
{
	unsigned ma, mi;

	if (!s || sscanf(s, "%u:%u", &ma, &mi) != 2)
		return false;
	*ret = makedev(ma, mi);
	return true;
}

/* Pushes what device mapper or MD made this device of. Returns how many that are. */
static size_t push_slaves(struct blockdevs *b, const char *dir)
{
	_cleanup_free_ char *slaves = NULL;
	struct dirent *d;
	size_t n = 0;
	DIR *list;

	if (asprintf(&slaves, "%s/slaves", dir) < 0)
		return 0;
	list = opendir(slaves);
	while (list && (d = readdir(list))) {
		_cleanup_free_ char *slave = NULL, *number = NULL;
		dev_t dev;

		if (d->d_name[0] == '.' || asprintf(&slave, "%s/%s", slaves, d->d_name) < 0)
			continue;
		number = line_read(slave, "dev");
		if (!number_parse(number, &dev))
			continue;
		push(b, dev);
		n++;
	}
	if (list)
		(void)closedir(list);
	return n;
}

/* Pushes the device that a loop device's file lies on. Returns how many that are: none for a file
 * in memory, on a server, or out of sight. */
static size_t push_backing(struct blockdevs *b, const char *sys, const char *file)
{
	_cleanup_free_ char *dir = NULL;
	struct statx sx;

	if (!file || file[0] != '/' ||
	    statx(AT_FDCWD, file, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &sx) < 0 ||
	    asprintf(&dir, "%s/dev/block/%u:%u", sys, sx.stx_dev_major, sx.stx_dev_minor) < 0 ||
	    access(dir, F_OK) < 0)
		return 0;
	push(b, makedev(sx.stx_dev_major, sx.stx_dev_minor));
	return 1;
}

/* Fills in v[i] and pushes what it consists of. */
static int describe(struct blockdevs *b, size_t i, const char *sys)
{
	_cleanup_free_ char *dir = NULL;
	struct blockdev *v = &b->v[i];
	char real[PATH_MAX];

	if (asprintf(&dir, "%s/dev/block/%u:%u", sys, major(v->dev), minor(v->dev)) < 0)
		return -ENOMEM;
	if (!realpath(dir, real))
		return -ENODEV;
	(void)snprintf(v->name, sizeof(v->name), "%.63s", strrchr(real, '/') + 1);
	v->backing_file = line_read(real, "loop/backing_file");
	v->leaf = push_slaves(b, real) + push_backing(b, sys, v->backing_file) == 0;
	/* A partition has no queue of its own: its disk's directory is the one around it. */
	if (has(real, "partition")) {
		_cleanup_free_ char *number = NULL;

		*strrchr(real, '/') = '\0';
		number = line_read(real, "dev");
		(void)number_parse(number, &v->disk);
	}
	(void)snprintf(v->disk_name, sizeof(v->disk_name), "%.63s", strrchr(real, '/') + 1);
	v->rotating = number_read(real, "queue/rotational") == 1;
	v->discard_max_bytes = number_read(real, "queue/discard_max_bytes");
	return 0;
}

int blockdevs_add(struct blockdevs *b, const char *sys, dev_t dev)
{
	struct blockdev *known = find(b, dev);
	size_t i = b->n;
	int r;

	if (known) {
		known->top = true;
		return 0;
	}
	push(b, dev);
	if (b->n == i)
		return 0; /* no room */
	r = describe(b, i, sys);
	if (r < 0) {
		b->n = i;
		return r;
	}
	b->v[i].top = true;
	for (i++; i < b->n; i++)
		(void)describe(b, i, sys); /* one that cannot be described is listed by number */
	return 0;
}

int blockdevs_add_btrfs(struct blockdevs *b, const char *sys, const char *uuid)
{
	_cleanup_free_ char *devices = NULL;
	struct dirent *d;
	DIR *list;

	if (asprintf(&devices, "%s/fs/btrfs/%s/devices", sys, uuid) < 0)
		return -ENOMEM;
	list = opendir(devices);
	if (!list)
		return -errno;
	while ((d = readdir(list))) {
		_cleanup_free_ char *dir = NULL, *number = NULL;
		dev_t dev;

		if (d->d_name[0] == '.' || asprintf(&dir, "%s/%s", devices, d->d_name) < 0)
			continue;
		number = line_read(dir, "dev");
		if (number_parse(number, &dev))
			(void)blockdevs_add(b, sys, dev);
	}
	(void)closedir(list);
	return 0;
}

void blockdevs_take(struct blockdevs *b, struct blockdevs *from)
{
	for (size_t i = 0; i < from->n; i++) {
		struct blockdev *v = &from->v[i];

		if (find(b, v->dev) || b->n == BLOCKDEVS_MOST)
			continue;
		b->v[b->n] = *v;
		b->v[b->n++].top = false;
		v->backing_file = NULL;
	}
	blockdevs_done(from);
}

void blockdevs_done(struct blockdevs *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->v[i].backing_file);
	b->n = 0;
}

bool blockdevs_rotating(const struct blockdevs *b)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->v[i].leaf && b->v[i].rotating)
			return true;
	return false;
}

bool blockdevs_discard(const struct blockdevs *b)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->v[i].top && b->v[i].discard_max_bytes > 0)
			return true;
	return false;
}

void blockdev_stat_path(const char *sys, dev_t dev, char *buf, size_t len)
{
	(void)snprintf(buf, len, "%s/dev/block/%u:%u/stat", sys, major(dev), minor(dev));
}
