/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A filesystem that was not measured yet: one name at a time, nothing assumed. */
#include "profile.h"

#include <stddef.h>

static const uint32_t magics[] = { 0 };

static void fill(struct fs_profile *p, const char *options)
{
	(void)options;
	p->remote = true;
	p->reason = "an unfamiliar filesystem: plain unlinks, parallelism by measurement";
}

const struct fs_family profile_other = { "other", magics, NULL, fill };
