/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile.h"

#include <stddef.h>

static const uint32_t magics[] = { 0x794c7630, 0 };

static void fill(struct fs_profile *p, const char *options)
{
	(void)options;
	/* Grants write leases on files that others have mapped (SAFETY I5), so nothing is ever
	 * truncated here; an entry of a lower layer becomes a whiteout and frees nothing. */
	p->shrink = SHRINK_NEVER;
	p->reason = "overlay: an entry of a lower layer becomes a whiteout, which frees nothing";
}

const struct fs_family profile_overlay = { "overlay", magics, NULL, fill };
