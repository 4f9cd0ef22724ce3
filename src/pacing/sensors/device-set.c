/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "device-set.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/btrfs.h"
#include "base/fd.h"
#include "base/mounts.h"

/* Overlays on overlays, loop devices on btrfs: they are never stacked higher. */
#define LEVELS_MOST 8

/* What is looked into on the way. */
struct search {
	const char *sys, *proc;
	struct mounts mounts; /* empty where the table cannot be read */
};

static int find(struct devices *d, const struct search *in, int fd, unsigned level);

/* Says why a filesystem of this type has no device. */
static void none_set(struct devices *d, const char *type)
{
	static const struct {
		const char *prefix, *why;
		bool served;
	} known[] = {
		{ "tmpfs", "in memory", false },
		{ "ramfs", "in memory", false },
		{ "devtmpfs", "in memory", false },
		{ "hugetlbfs", "in memory", false },
		{ "fuse", "served by a process (FUSE)", true },
		{ "nfs", "on a server", true },
		{ "ceph", "on a server", true },
		{ "cifs", "on a server", true },
		{ "smb3", "on a server", true },
		{ "9p", "on a server", true },
		{ "lustre", "on a server", true },
		{ "afs", "on a server", true },
		{ "overlay", "an overlay whose upper directory is out of sight", false },
	};

	d->none = "no block device that this system shows";
	for (size_t i = 0; i < ELEMENTSOF(known); i++)
		if (strncmp(type, known[i].prefix, strlen(known[i].prefix)) == 0) {
			d->none = known[i].why;
			d->served = known[i].served;
			return;
		}
}

/* Opens for reading what fd may only be a pin of, if it is a file that can be asked. */
static int open_for_asking(int fd)
{
	char link[sizeof("/proc/self/fd/") + 12];
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return -EMEDIUMTYPE;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	r = open(link, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

static int commits_set(struct devices *d, enum commit_kind kind, const char *format, ...)
	_printf_(3, 4);

static int commits_set(struct devices *d, enum commit_kind kind, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = vasprintf(&d->commit_path, format, ap);
	va_end(ap);
	if (r < 0) {
		d->commit_path = NULL;
		return -ENOMEM;
	}
	d->commit_kind = kind;
	return 0;
}

/* btrfs spans several devices and gives its files device numbers of its own. */
static int find_btrfs(struct devices *d, const struct search *in, int fd, const struct mount *m)
{
	_cleanup_close_ int asked = open_for_asking(fd);
	_cleanup_free_ char *discard = m ? mount_value(m, "discard") : NULL;

	if (asked < 0 || btrfs_uuid(asked, d->uuid, sizeof(d->uuid)) < 0)
		return 0;
	d->discards_async = discard && strcmp(discard, "async") == 0;
	(void)blockdevs_add_btrfs(&d->b, in->sys, d->uuid);
	return commits_set(d, COMMIT_BTRFS, "%s/fs/btrfs/%s/commit_stats", in->sys, d->uuid);
}

/* An overlay's files are where its upper directory is, so all is as it is there. */
static int find_upper(struct devices *d, const struct search *in, const struct mount *m,
		      unsigned level)
{
	_cleanup_free_ char *upper = mount_value(m, "upperdir");
	_cleanup_close_ int fd =
		upper ? open(upper, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	struct devices below = { 0 };
	int r;

	if (fd < 0)
		return 0;
	r = find(&below, in, fd, level + 1);
	if (r < 0)
		return r;
	memcpy(below.upper_type, below.upper_type[0] ? below.upper_type : below.type,
	       sizeof(below.upper_type));
	memcpy(below.type, d->type, sizeof(below.type));
	*d = below;
	return 0;
}

/* Adds what is beneath a loop file that lies on btrfs or on an overlay, which the file's device
 * number does not tell. Where a process serves what it lies on, the way to it may have no end. */
static int find_backing(struct devices *d, const struct search *in, struct blockdev *loop,
			unsigned level)
{
	const struct mount *m = mounts_by_path(&in->mounts, loop->backing_file);
	_cleanup_close_ int fd = -1;
	struct devices below = { 0 };
	int r;

	if (!m || strncmp(m->type, "fuse", 4) != 0)
		fd = open(loop->backing_file, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	r = find(&below, in, fd, level + 1);
	if (r < 0)
		return r;
	loop->leaf &= below.b.n == 0;
	blockdevs_take(&d->b, &below.b);
	devices_done(&below);
	return 0;
}

/* The kernel calls a journal by its device and inode: "NAME-8". */
static int journal_find(struct devices *d, const char *proc, const char *name)
{
	_cleanup_free_ char *pattern = NULL;
	_cleanup_(globfree) glob_t found = { 0 };

	if (asprintf(&pattern, "%s/fs/jbd2/%s-[0-9]*/info", proc, name) < 0)
		return -ENOMEM;
	(void)glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *inode = found.gl_pathv[i] + strlen(pattern) - strlen("[0-9]*/info");

		if (inode[strspn(inode, "0123456789")] == '/')
			return commits_set(d, COMMIT_JBD2, "%s", found.gl_pathv[i]);
	}
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const dev_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The disks of the leaves, sorted: partitions of one disk share its heads and channels. */
static int key_make(struct devices *d, dev_t own)
{
	dev_t disks[BLOCKDEVS_MOST];
	size_t n = 0, len = 0;
	FILE *f;

	for (size_t i = 0; i < d->b.n; i++)
		if (d->b.v[i].leaf)
			disks[n++] = d->b.v[i].disk;
	qsort(disks, n, sizeof(disks[0]), by_number);
	f = open_memstream(&d->key, &len);
	if (!f)
		return -ENOMEM;
	if (n == 0)
		(void)fprintf(f, "none:%u:%u", major(own), minor(own));
	for (size_t i = 0; i < n; i++)
		if (i == 0 || disks[i] != disks[i - 1])
			(void)fprintf(f, "%s%u:%u", i > 0 ? "+" : "", major(disks[i]),
				      minor(disks[i]));
	return fclose(f) == 0 ? 0 : -ENOMEM;
}

/* Where the commits are told of, for filesystems on one device. */
static int commits_find(struct devices *d, const struct search *in)
{
	const char *name = d->b.v[0].name;

	if (strcmp(d->type, "ext4") == 0 || strcmp(d->type, "ext3") == 0)
		return journal_find(d, in->proc, name);
	if (strcmp(d->type, "xfs") != 0)
		return 0;
	return commits_set(d, COMMIT_XFS, "%s/fs/xfs/%s/stats/stats", in->sys, name);
}

/* Fills in all but the key and `none`. */
static int find_by_type(struct devices *d, const struct search *in, int fd,
			const struct identity *id, unsigned level)
{
	const struct mount *m = mounts_by_id(&in->mounts, id->mnt_id);
	int r = 0;

	(void)snprintf(d->type, sizeof(d->type), "%s", m ? m->type : "");
	if (strcmp(d->type, "overlay") == 0)
		return find_upper(d, in, m, level);
	if (strcmp(d->type, "btrfs") == 0)
		r = find_btrfs(d, in, fd, m);
	else if (blockdevs_add(&d->b, in->sys, id->dev) >= 0)
		r = commits_find(d, in);
	for (size_t i = 0; r >= 0 && i < d->b.n; i++)
		if (d->b.v[i].leaf && d->b.v[i].backing_file)
			r = find_backing(d, in, &d->b.v[i], level);
	return r;
}

static int find(struct devices *d, const struct search *in, int fd, unsigned level)
{
	struct devices v = { 0 };
	struct identity id;
	int r = level >= LEVELS_MOST ? -ELOOP : fd_whereabouts(fd, "", 0, &id);

	if (r < 0)
		return r;
	r = find_by_type(&v, in, fd, &id, level);
	if (r >= 0 && v.b.n == 0 && !v.none)
		none_set(&v, v.type);
	if (r >= 0 && !v.key)
		r = key_make(&v, id.dev);
	if (r < 0) {
		devices_done(&v);
		return r;
	}
	*d = v;
	return 0;
}

int devices_find(struct devices *d, const char *sys, const char *proc, int fd)
{
	struct search in = { .sys = sys, .proc = proc };
	_cleanup_free_ char *table = NULL;
	int r;

	if (asprintf(&table, "%s/self/mountinfo", proc) < 0)
		return -ENOMEM;
	(void)mounts_read(&in.mounts, table);
	r = find(d, &in, fd, 0);
	mounts_done(&in.mounts);
	return r;
}

void devices_done(struct devices *d)
{
	blockdevs_done(&d->b);
	free(d->key);
	free(d->commit_path);
	*d = (struct devices){ 0 };
}
