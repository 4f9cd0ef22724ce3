/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* <mount>/.reclaim and <mount>/.reclaim/UID: made by root, and believed only if they are exactly
 * what root would have made. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct staging_wanted {
	const char *mount_path; /* absolute */
	uint64_t mnt_id;        /* 0: whatever is mounted there */
	uid_t uid;
	gid_t gid;
	bool make;          /* otherwise only if it is there */
	const char *holder; /* this daemon (base/lock-holder.h); NULL: whichever has the mount */
};

/* Returns a descriptor of the submitter's own directory, open for listing, or a negative errno:
 * -EXDEV if that path is no root of that mount, -EPERM if something there is not as it should be,
 * -EBUSY if another daemon has the mount. */
int staging_get(const struct staging_wanted *w);
