/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a cluster filesystem does with the space of what is deleted: when it comes back, as far as
 * that can be read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct moosefs;

struct keeping {
	bool has_trash;                   /* MooseFS, and it said: */
	uint64_t trash_seconds;           /* that what is deleted stays in the trash */
	uint64_t trash_bytes, open_bytes; /* of all users: in the trash; deleted and still open */
	bool has_snapshots;               /* CephFS, and it said: */
	uint64_t snapshots;               /* how many hold what is in the directory */
};

/* About the inode, of a MooseFS. What it does not say stays unknown. */
void keeping_of_moosefs(struct moosefs *m, uint64_t inode, struct keeping *ret);

/* About the directory open as fd (O_PATH will do), of a CephFS. */
void keeping_of_cephfs(int fd, struct keeping *ret);
