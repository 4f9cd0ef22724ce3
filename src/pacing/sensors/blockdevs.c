/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "blockdevs.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"

static char *line_read(const char *format, ...) _printf_(1, 2);

/* Reads a file of one line. Returns it without its newline (malloc'ed), or NULL. */
static char *line_read(const char *format, ...)
{
	_cleanup_free_ char *path = NULL;
	char *line = NULL;
	ssize_t len = 0;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&path, format, ap) >= 0)
		len = fd_read_file(path, KiB(64), &line);
	va_end(ap);
	if (len > 0 && line[len - 1] == '\n')
		line[len - 1] = '\0';
	return line;
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
	if (!find(b, dev) && b->n < BLOCKDEVS_MOST)
		b->v[b->n++] = (struct blockdev){ .dev = dev, .disk = dev, .counts = true };
}

/* The number of the device whose directory this is, as its file `dev` has it: "254:0". */
static bool number_read(const char *dir, dev_t *ret)
{
	_cleanup_free_ char *number = line_read("%s/dev", dir);
	unsigned ma, mi;

	if (!number || sscanf(number, "%u:%u", &ma, &mi) != 2)
		return false;
	*ret = makedev(ma, mi);
	return true;
}

/* Reads the numbers of the devices that a directory lists. Returns how many there are. */
static size_t list_read(const char *dir, const char *name, dev_t ret[BLOCKDEVS_MOST])
{
	_cleanup_free_ char *pattern = NULL;
	_cleanup_(globfree) glob_t found = { 0 };
	size_t n = 0;

	if (asprintf(&pattern, "%s/%s/*", dir, name) < 0 || glob(pattern, 0, NULL, &found) != 0)
		return 0;
	for (size_t i = 0; i < found.gl_pathc && n < BLOCKDEVS_MOST; i++)
		n += number_read(found.gl_pathv[i], &ret[n]);
	return n;
}

static uint64_t queue_read(const char *disk, const char *name, uint64_t otherwise)
{
	_cleanup_free_ char *line = line_read("%s/queue/%s", disk, name);

	return line ? strtoull(line, NULL, 10) : otherwise;
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

/* Fills in v[i] and pushes what it consists of: for device mapper and MD, their slaves. */
static int describe(struct blockdevs *b, size_t i, const char *sys)
{
	_cleanup_free_ char *dir = NULL, *partition = NULL;
	struct blockdev *v = &b->v[i];
	dev_t slaves[BLOCKDEVS_MOST];
	char real[PATH_MAX];
	size_t n;

	if (asprintf(&dir, "%s/dev/block/%u:%u", sys, major(v->dev), minor(v->dev)) < 0)
		return -ENOMEM;
	if (!realpath(dir, real))
		return -ENODEV;
	(void)snprintf(v->name, sizeof(v->name), "%.63s", strrchr(real, '/') + 1);
	v->backing_file = line_read("%s/loop/backing_file", real);
	n = list_read(real, "slaves", slaves);
	for (size_t k = 0; k < n; k++)
		push(b, slaves[k]);
	v->leaf = push_backing(b, sys, v->backing_file) + n == 0;
	/* A partition has no queue of its own: its disk's directory is the one around it. */
	partition = line_read("%s/partition", real);
	if (partition) {
		*strrchr(real, '/') = '\0';
		(void)number_read(real, &v->disk);
	}
	(void)snprintf(v->disk_name, sizeof(v->disk_name), "%.63s", strrchr(real, '/') + 1);
	v->rotating = queue_read(real, "rotational", 0) == 1;
	v->discard_max_bytes = queue_read(real, "discard_max_bytes", 0);
	v->discard_granularity = queue_read(real, "discard_granularity", 0);
	v->counts = queue_read(real, "iostats", 1) != 0;
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
	_cleanup_free_ char *dir = NULL;
	dev_t devices[BLOCKDEVS_MOST];
	size_t n;

	if (asprintf(&dir, "%s/fs/btrfs/%s", sys, uuid) < 0)
		return -ENOMEM;
	n = list_read(dir, "devices", devices);
	for (size_t i = 0; i < n; i++)
		(void)blockdevs_add(b, sys, devices[i]);
	return n > 0 ? 0 : -ENOENT;
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
