/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile.h"

#include <fnmatch.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/mounts.h"

/* readdir answers in hash order; inode order is the disk's (300,000 files: 2.5 s against 6.0 s).
 * Within one directory a second lane pays too, because the inode is freed after the parent's lock
 * is dropped (200,000 files: 1.68 s against 2.70 s). */
static const struct fs_profile ext = {
	.sort = ORDER_ASCENDING,
	.dir_lanes = 2,
	.short_is_eof = true,
	.lease_truthful = true,
	.atime_truthful = true,
	.inodes_fixed = true,
	.shrink = SHRINK_TAIL,
	.map_first = true,
	.reason = "ext lists in hash order: unlinked in inode order instead",
};

/* Freeing an extent trims the whole free run up to the next used block, so what is freed in
 * ascending order is trimmed once and anything else over and over (60,000 files of 32 KiB: 2.6 GiB
 * against 162 GiB trimmed). More than one lane breaks the order. Inodes tell it poorly: of 19,200
 * files in 48 directories, 0.48 GiB, made by one process, 9.8 GiB were trimmed in the order of
 * inodes and 1.5 GiB in that of blocks; made by four, 25 and 10 GiB. */
static const struct fs_profile ext_discard = {
	.sort = ORDER_ASCENDING,
	.by_place = true,
	.ascending = true,
	.lanes = 1,
	.lanes_max = 1,
	.dir_lanes = 1,
	.short_is_eof = true,
	.lease_truthful = true,
	.atime_truthful = true,
	.inodes_fixed = true,
	.shrink = SHRINK_HEAD,
	.map_first = true,
	.reason = "ext mounted with discard trims each free run again unless blocks are freed in "
		  "ascending order: one lane, files in the order of their blocks, large ones "
		  "from the head",
};

/* Directories live in different allocation groups, so a lane each pays (2.0 s against 3.6 s); two
 * lanes in one directory fight over one group's header (8.5 s against 4.0 s). Directories made one
 * after the other lie in one group after the other. Visited in that order, the freeing of one,
 * which goes on behind the scenes, does not meet the unlinking of the next (200 directories of 500:
 * 0.9 s instead of 1.05 s). */
static const struct fs_profile xfs = {
	.sort = ORDER_ASCENDING,
	.dirs_as_listed = true,
	.short_is_eof = true,
	.lease_truthful = true,
	.atime_truthful = true,
	.shrink = SHRINK_TAIL,
	.reason = "XFS frees inodes behind the scenes, per allocation group: a lane for each "
		  "directory, never two in one",
};

/* Every lane works on the same two trees: two lanes took 13 s where one took 4.6 s. Items taken
 * from a leaf's end leave the others where they are: 50,000 files go in 1.08 s in descending order,
 * in 1.28 s in any other.
 *
 * A file's sync goes to a log, and what its steps have freed waits for the next commit. That of 20
 * GiB holds up all syncs for 0.2 s; one every 512 MiB takes 15 to 20 ms, of which other processes
 * notice nothing (p99 3.9 ms in place of 82, on a simulated SSD). Every 128 MiB is no better, and
 * takes twice the time. */
static const struct fs_profile btrfs = {
	.lanes = 1,
	.sort = ORDER_DESCENDING,
	.short_is_eof = true,
	.subvolumes = true,
	.lease_truthful = true,
	.atime_truthful = true,
	.shrink = SHRINK_TAIL,
	.commit_bytes = MiB(512),
	.reason = "btrfs keeps all directories in one tree, where a second lane only waits: one "
		  "lane, descending inode order",
};

/* tmpfs and ramfs: nothing ever waits for a device. Two lanes in one directory: 0.54 s against
 * 0.83 s for 200,000 files. */
static const struct fs_profile memory = {
	.dir_lanes = 2,
	.short_is_eof = true,
	.lease_truthful = true,
	.atime_truthful = true,
	.inodes_fixed = true,
	.reason = "memory is freed as names go: a lane for each CPU",
};

/* Grants write leases on files that other processes have mapped (I5 of SECURITY.md), so nothing is
 * ever truncated here; an entry of a lower layer becomes a whiteout and frees nothing. */
static const struct fs_profile overlay = {
	.shrink = SHRINK_NEVER,
	.reason = "overlay: an entry of a lower layer becomes a whiteout, which frees nothing",
};

/* Every entry costs a round trip to a server or another process: NFS, FUSE, and those that were not
 * measured: CIFS and SMB, 9P. Across directories round trips overlap (a FUSE passthrough with 1 ms:
 * 14.5 s with one lane, 0.97 s with 16, 0.37 s with 64); within one directory the parent's lock is
 * held across each, and a second lane only waits. Mounted as it comes, MooseFS's client serves ten
 * at a time: 8 lanes were 7.4 times as fast as one, 16 were 8.9, 32 were 8.3. */
#define SERVER_LANES 16

static const struct fs_profile server = {
	.server = true,
	.reason = "each entry costs a round trip: many directories in flight at once",
};

/* The kernel asks for each name before it is unlinked. The client answers from the listing it has
 * in its hands, but only the thread that asked for that; any other goes to the master (600 files:
 * 604 lookups and 3.0 s instead of 4 and 1.5 s). The workers of a ring are others. */
static const struct fs_profile moosefs = {
	.server = true,
	.same_thread = true,
	.reason = "each entry costs a round trip to the master: many directories in flight, each "
		  "listed and emptied by one thread, as the client knows what it has listed",
};

/* The kernel's client may answer an unlink before the server has (nowsync): what went wrong is told
 * to the process that syncs the directory. */
static const struct fs_profile cephfs = {
	.server = true,
	.sync_dirs = true,
	.snapdir = ".snap",
	.reason = "each entry costs a round trip to the metadata server: many directories in "
		  "flight; one that stays is synced, as errors may be told that late",
};

/* A filesystem that was not measured yet: one name at a time, nothing assumed. */
static const struct fs_profile other = {
	.remote = true,
	.reason = "an unfamiliar filesystem: plain unlinks, parallelism by measurement",
};

#define FUSE_MAGIC 0x65735546

/* Which filesystems are of which family. The first one that fits is it. */
static const struct {
	const char *family;
	const struct fs_profile *profile;
	uint32_t f_type;
	const char *option;   /* NULL, or only if it is mounted with that */
	const char *types[4]; /* none, or only of these types, as in mountinfo, ... */
	const char *source;   /* ... or with a source that matches this: fnmatch(3) */
} families[] = {
	{ "ext", &ext_discard, .f_type = 0xef53, .option = "discard" },
	{ "ext", &ext, .f_type = 0xef53 },
	{ "xfs", &xfs, .f_type = 0x58465342 },
	{ "btrfs", &btrfs, .f_type = 0x9123683e },
	{ "memory", &memory, .f_type = 0x01021994 },
	{ "memory", &memory, .f_type = 0x858458f6 },
	{ "overlay", &overlay, .f_type = 0x794c7630 },
	/* mfsmount of MooseFS 3 mounts as "fuse" from "mfs#master:9421", later ones and those
	 * mounted by mount(8) have a type of their own. */
	{ "moosefs", &moosefs, .f_type = FUSE_MAGIC,
	  .types = { "moosefs", "fuse.moosefs", "fuse.mfs", "fuse.mfsmount" }, .source = "mfs#*" },
	/* The kernel's client, or ceph-fuse. */
	{ "cephfs", &cephfs, .f_type = 0x00c36400 },
	{ "cephfs", &cephfs, .f_type = FUSE_MAGIC, .types = { "fuse.ceph-fuse", "fuse.ceph" },
	  .source = "ceph-fuse" },
	{ "nfs", &server, .f_type = 0x6969 },
	{ "fuse", &server, .f_type = FUSE_MAGIC },
	{ "remote", &server, .f_type = 0xff534d42 },
	{ "remote", &server, .f_type = 0xfe534d42 },
	{ "remote", &server, .f_type = 0x01021997 },
};

/* Is it mounted as the row of the table says? */
static bool is_mounted_so(size_t row, const struct mount *m)
{
	const char *source = families[row].source;

	if (families[row].option && !mount_has_option(m, families[row].option))
		return false;
	for (size_t i = 0; m && i < ELEMENTSOF(families[row].types); i++)
		if (families[row].types[i] && strcmp(m->type, families[row].types[i]) == 0)
			return true;
	return source ? m && fnmatch(source, m->source, 0) == 0 : !families[row].types[0];
}

void profile_find(uint32_t f_type, const struct mount *m, struct fs_profile *ret)
{
	size_t i = 0;

	while (i < ELEMENTSOF(families) && (families[i].f_type != f_type || !is_mounted_so(i, m)))
		i++;
	*ret = i < ELEMENTSOF(families) ? *families[i].profile : other;
	ret->family = i < ELEMENTSOF(families) ? families[i].family : "other";
	ret->discards = mount_has_option(m, "discard");
	/* What a profile does not say. */
	if (ret->server) {
		ret->lanes = SERVER_LANES;
		ret->remote = true;
	}
	ret->lanes_max = ret->lanes_max ? ret->lanes_max : 64;
	ret->dir_lanes = ret->dir_lanes ? ret->dir_lanes : 1;
	if (shrink_unit() > SHRINK_UNIT_MOST)
		ret->shrink = SHRINK_NEVER;
}

/* As profile_find(), by the type alone; returns false if that is not known. */
static bool find_by_fd(int fd, struct fs_profile *ret, unsigned long *ret_flags)
{
	struct statfs sfs;

	if (fstatfs(fd, &sfs) < 0)
		return false;
	profile_find((uint32_t)sfs.f_type, NULL, ret);
	*ret_flags = (unsigned long)sfs.f_flags;
	return true;
}

bool profile_shrinks(int fd)
{
	struct fs_profile p;
	unsigned long flags;

	return find_by_fd(fd, &p, &flags) && p.lease_truthful && p.shrink != SHRINK_NEVER;
}

bool profile_is_local(int fd)
{
	struct fs_profile p;
	unsigned long flags;

	return find_by_fd(fd, &p, &flags) && p.lease_truthful;
}

bool profile_keeps_atime(int fd)
{
	struct fs_profile p;
	unsigned long flags;

	return find_by_fd(fd, &p, &flags) && p.atime_truthful && !(flags & ST_NOATIME);
}

bool profile_fixes_inodes(int fd)
{
	struct fs_profile p;
	unsigned long flags;

	return find_by_fd(fd, &p, &flags) && p.inodes_fixed;
}

/* Large folios are as large as what one entry of a middle page table maps, at most: one page of
 * entries of 8 bytes each, or less. It is reckoned, not read from sysfs: a container may hide that.
 */
uint64_t shrink_unit(void)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return MAX(page * (page / sizeof(uint64_t)), SHRINK_LEAST);
}
