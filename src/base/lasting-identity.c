/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lasting-identity.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "fd.h"

int lasting_fsid(int fd, uint64_t *ret)
{
	struct statfs sfs;
	uint32_t v[2];

	if (fstatfs(fd, &sfs) < 0)
		return -errno;
	memcpy(v, &sfs.f_fsid, sizeof(v));
	*ret = v[0] | (uint64_t)v[1] << 32;
	return 0;
}

/* Some filesystems (XFS, FAT, F2FS) have nothing for an id but the number of their device, in the
 * kernel's own spelling. That is another one as soon as disks are found in another order. */
static bool is_device_number(uint64_t fsid, uint64_t dev)
{
	uint64_t minor_bits = minor(dev);

	return fsid ==
	       ((minor_bits & 0xff) | (uint64_t)major(dev) << 8 | (minor_bits & ~0xffULL) << 12);
}

struct lasting_identity lasting_of(uint64_t fsid, const struct identity *id)
{
	return (struct lasting_identity){
		/* Inode and birth time, to the nanosecond, identify it without. */
		.fsid = id->btime_nsec != 0 && is_device_number(fsid, id->dev) ? 0 : fsid,
		.ino = id->ino,
		.btime_nsec = id->btime_nsec,
		.type = id->mode & S_IFMT,
	};
}

bool lasting_equal(const struct lasting_identity *a, const struct lasting_identity *b)
{
	return a->fsid == b->fsid && a->ino == b->ino && a->btime_nsec == b->btime_nsec &&
	       a->type == b->type;
}

bool lasting_matches(const struct lasting_identity *is, const struct lasting_identity *known)
{
	struct lasting_identity there = *known;

	there.fsid = known->fsid ? known->fsid : is->fsid;
	return lasting_equal(is, &there);
}

int lasting_at(int dirfd, const char *name, struct lasting_identity *ret)
{
	struct identity id = { 0 };
	uint64_t fsid = 0;
	int r = fd_identity(dirfd, name, &id);

	if (r >= 0)
		r = lasting_fsid(dirfd, &fsid);
	if (r >= 0)
		*ret = lasting_of(fsid, &id);
	return r;
}
