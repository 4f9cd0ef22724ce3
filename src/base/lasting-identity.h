/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The identity of a file as it is recorded and sent; struct identity (fd.h) is that of the moment.
 */
#pragma once

#include <stdint.h>

/* The identity of a file across reboots: mount ids and device numbers change, these do not. */
struct lasting_identity {
	uint64_t fsid; /* statfs(2); 0: none, or it does not last */
	uint64_t ino;
	int64_t btime_nsec; /* 0: the filesystem has none */
	uint32_t type;      /* S_IFMT bits */
};
