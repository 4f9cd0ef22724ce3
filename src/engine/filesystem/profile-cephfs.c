/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile.h"

#include <stddef.h>
#include <string.h>

static const uint32_t magics[] = { 0x00c36400, 0x65735546, 0 };

/* The kernel's client, or ceph-fuse. */
static bool claims(const struct profile_query *of)
{
	return of->f_type == magics[0] ||
	       (of->type &&
		(strcmp(of->type, "fuse.ceph-fuse") == 0 || strcmp(of->type, "fuse.ceph") == 0)) ||
	       (of->source && strcmp(of->source, "ceph-fuse") == 0);
}

static void fill(struct fs_profile *p, const char *options)
{
	(void)options;
	profile_fill_server(p);
	/* The kernel's client may answer an unlink before the server has (nowsync): what went wrong
	 * is told to the process that syncs the directory. */
	p->sync_dirs = true;
	p->snapdir = ".snap";
	p->reason = "each entry costs a round trip to the metadata server: many directories in "
		    "flight; one that stays is synced, as errors may be told that late";
}

const struct fs_family profile_cephfs = { "cephfs", magics, claims, fill };
