/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "device-set.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

struct roots {
	const char *sys, *proc;
};

static int find(struct devices *d, const struct roots *roots, int fd, unsigned level);

/* What the mount table says about the mount with this id: its type, and for an overlay the upper
 * directory (malloc'ed, or NULL). */
static int mount_find(const char *proc, uint64_t mnt_id, char *type, size_t len, char **ret_upper)
{
	_cleanup_free_ char *path = NULL;
	struct mounts mounts;
	const struct mount *m;

	if (asprintf(&path, "%s/self/mountinfo", proc) < 0)
		return -ENOMEM;
	if (mounts_read(&mounts, path) < 0)
		return 0;
	m = mounts_by_id(&mounts, mnt_id);
	if (m) {
		(void)snprintf(type, len, "%s", m->type);
		if (strcmp(type, "overlay") == 0)
			*ret_upper = mount_value(m, "upperdir");
	}
	mounts_done(&mounts);
	return 0;
}

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

/* btrfs spans several devices and gives its files device numbers of its own. */
static int find_btrfs(struct devices *d, const struct roots *roots, int fd)
{
	_cleanup_close_ int asked = open_for_asking(fd);
	char uuid[40];

	if (asked < 0 || btrfs_uuid(asked, uuid, sizeof(uuid)) < 0)
		return 0;
	(void)blockdevs_add_btrfs(&d->b, roots->sys, uuid);
	if (asprintf(&d->commit_path, "%s/fs/btrfs/%s/commit_stats", roots->sys, uuid) < 0) {
		d->commit_path = NULL;
		return -ENOMEM;
	}
	d->commit_kind = COMMIT_BTRFS;
	return 0;
}

/* An overlay's files are where its upper directory is, so all is as it is there. */
static int find_upper(struct devices *d, const struct roots *roots, const char *upper,
		      unsigned level)
{
	_cleanup_close_ int fd =
		upper ? open(upper, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	struct devices below = { 0 };
	int r;

	if (fd < 0)
		return 0;
	r = find(&below, roots, fd, level + 1);
	if (r < 0)
		return r;
	memcpy(below.upper_type, below.upper_type[0] ? below.upper_type : below.type,
	       sizeof(below.upper_type));
	memcpy(below.type, d->type, sizeof(below.type));
	*d = below;
	return 0;
}

/* Does a process serve the filesystem that this path, as the kernel has it, is on? There, the way
 * to a file may have no end. */
static bool is_served(const char *proc, const char *path)
{
	_cleanup_free_ char *table = NULL;
	struct mounts mounts;
	const struct mount *m;
	bool yes;

	if (asprintf(&table, "%s/self/mountinfo", proc) < 0) {
		table = NULL;
		return true;
	}
	if (mounts_read(&mounts, table) < 0)
		return false;
	m = mounts_by_path(&mounts, path);
	yes = m && strncmp(m->type, "fuse", 4) == 0;
	mounts_done(&mounts);
	return yes;
}

/* Adds what is beneath a loop file that lies on btrfs or on an overlay, which the file's device
 * number does not tell. */
static int find_backing(struct devices *d, const struct roots *roots, size_t i, unsigned level)
{
	const char *file = d->b.v[i].backing_file;
	_cleanup_close_ int fd = -1;
	struct devices below = { 0 };
	int r;

	if (!is_served(roots->proc, file))
		fd = open(file, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	r = find(&below, roots, fd, level + 1);
	if (r < 0)
		return r;
	d->b.v[i].leaf &= below.b.n == 0;
	blockdevs_take(&d->b, &below.b);
	devices_done(&below);
	return 0;
}

static int find_all_backing(struct devices *d, const struct roots *roots, unsigned level)
{
	for (size_t i = 0; i < d->b.n; i++) {
		int r = 0;

		if (d->b.v[i].leaf && d->b.v[i].backing_file)
			r = find_backing(d, roots, i, level);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Is this "NAME-8"? The kernel calls a journal by its device and inode. */
static bool journal_of(const char *journal, const char *name)
{
	size_t len = strlen(name);

	return strncmp(journal, name, len) == 0 && journal[len] == '-' && journal[len + 1] &&
	       strspn(journal + len + 1, "0123456789") == strlen(journal + len + 1);
}

static int journal_find(struct devices *d, const char *proc, const char *name)
{
	_cleanup_free_ char *journals = NULL;
	struct dirent *e;
	DIR *list;
	int r = 0;

	if (asprintf(&journals, "%s/fs/jbd2", proc) < 0)
		return -ENOMEM;
	list = opendir(journals);
	while (list && !d->commit_path && (e = readdir(list))) {
		if (!journal_of(e->d_name, name))
			continue;
		if (asprintf(&d->commit_path, "%s/%s/info", journals, e->d_name) < 0) {
			d->commit_path = NULL;
			r = -ENOMEM;
			break;
		}
		d->commit_kind = COMMIT_JBD2;
	}
	if (list)
		(void)closedir(list);
	return r;
}

/* Where the commits are told of, for filesystems on one device. */
static int commits_find(struct devices *d, const struct roots *roots)
{
	const char *name = d->b.v[0].name;

	if (strcmp(d->type, "ext4") == 0 || strcmp(d->type, "ext3") == 0)
		return journal_find(d, roots->proc, name);
	if (strcmp(d->type, "xfs") != 0)
		return 0;
	if (asprintf(&d->commit_path, "%s/fs/xfs/%s/stats/stats", roots->sys, name) < 0) {
		d->commit_path = NULL;
		return -ENOMEM;
	}
	d->commit_kind = COMMIT_XFS;
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

/* Fills in all but the key and `none`. */
static int find_by_type(struct devices *d, const struct roots *roots, int fd,
			const struct identity *id, unsigned level)
{
	_cleanup_free_ char *upper = NULL;
	int r = mount_find(roots->proc, id->mnt_id, d->type, sizeof(d->type), &upper);

	if (r < 0)
		return r;
	if (strcmp(d->type, "btrfs") == 0)
		r = find_btrfs(d, roots, fd);
	else if (strcmp(d->type, "overlay") == 0)
		return find_upper(d, roots, upper, level);
	else if (blockdevs_add(&d->b, roots->sys, id->dev) >= 0)
		r = commits_find(d, roots);
	return r < 0 ? r : find_all_backing(d, roots, level);
}

static int find(struct devices *d, const struct roots *roots, int fd, unsigned level)
{
	struct devices v = { 0 };
	struct identity id;
	int r = level >= LEVELS_MOST ? -ELOOP : fd_whereabouts(fd, &id);

	if (r < 0)
		return r;
	r = find_by_type(&v, roots, fd, &id, level);
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
	const struct roots roots = { .sys = sys, .proc = proc };

	return find(d, &roots, fd, 0);
}

void devices_done(struct devices *d)
{
	blockdevs_done(&d->b);
	free(d->key);
	free(d->commit_path);
	*d = (struct devices){ 0 };
}
