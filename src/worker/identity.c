/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

int found_at(int dirfd, const char *name, struct found *ret)
{
	struct statx sx;

	if (statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT,
		  STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID, &sx) < 0)
		return -errno;
	*ret = (struct found){ identity_of(&sx), sx.stx_uid, sx.stx_attributes };
	return 0;
}
