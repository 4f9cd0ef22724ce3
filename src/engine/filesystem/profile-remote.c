/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Filesystems where every entry costs a round trip to a server or another process: NFS, FUSE, and
 * those that were not measured: CIFS and SMB, 9P. */
#include "profile.h"

#include <stddef.h>

void profile_fill_server(struct fs_profile *p)
{
	/* Across directories round trips overlap (a FUSE passthrough with 1 ms: 14.5 s with one
	 * lane, 0.97 s with 16, 0.37 s with 64); within one directory the parent's lock is held
	 * across each, and a second lane only waits. Mounted as it comes, MooseFS's client serves
	 * ten at a time: 8 lanes were 7.4 times as fast as one, 16 were 8.9, 32 were 8.3. */
	p->lanes = 16;
	p->remote = true;
	p->server = true;
	p->reason = "each entry costs a round trip: many directories in flight at once";
}

static void fill(struct fs_profile *p, const char *options)
{
	(void)options;
	profile_fill_server(p);
}

static const uint32_t nfs_magics[] = { 0x6969, 0 };
static const uint32_t fuse_magics[] = { 0x65735546, 0 };
static const uint32_t magics[] = { 0xff534d42, 0xfe534d42, 0x01021997, 0 };

const struct fs_family profile_nfs = { "nfs", nfs_magics, NULL, fill };
const struct fs_family profile_fuse = { "fuse", fuse_magics, NULL, fill };
const struct fs_family profile_remote = { "remote", magics, NULL, fill };
