/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Filesystems where every entry costs a round trip: NFS, CIFS/SMB2, CephFS, FUSE, 9P. */
#include "ways.h"

static const uint32_t magics[] = { 0x6969,     0xff534d42, 0xfe534d42, 0x00c36400,
				   0x65735546, 0x01021997, 0 };

static void fill(struct ways *w, const char *options)
{
	(void)options;
	/* Across directories round trips overlap (a FUSE passthrough with 1 ms: 14.5 s with one
	 * lane, 0.97 s with 16); within one directory the parent's lock is held across each. */
	w->lanes = 8;
	w->remote = true;
	w->reason = "each entry costs a round trip: many directories in flight at once";
}

const struct ways_family ways_remote = { "remote", magics, fill };
