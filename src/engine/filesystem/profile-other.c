/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A filesystem nobody measured yet: one name at a time, nothing assumed. */
#include "profile.h"

#include <stddef.h>

static const uint32_t magics[] = { 0 };

static void fill(struct ways *w, const char *options)
{
	(void)options;
	w->remote = true;
	w->reason = "an unfamiliar filesystem: plain unlinks, parallelism by measurement";
}

const struct ways_family ways_other = { "other", magics, NULL, fill };
