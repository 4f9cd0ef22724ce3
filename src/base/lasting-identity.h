/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who a file is, as it is recorded and sent: see struct identity (fd.h) for who it is just now. */
#pragma once

#include <stdint.h>

/* Who a file is across reboots: mount ids and device numbers change, these do not. */
struct lasting_identity {
	uint64_t fsid; /* statfs(2); 0: none, or it does not last */
	uint64_t ino;
	int64_t btime_nsec; /* 0: the filesystem has none */
	uint32_t type;      /* S_IFMT bits */
};
