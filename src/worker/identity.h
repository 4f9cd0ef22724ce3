/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A file's identity now and after a restart, and what its owner and attributes say about deleting
 * it. */
#pragma once

#include "base/lasting-identity.h"
#include "base/fd.h"

struct found {
	struct identity id;
	uid_t uid;
	uint64_t attributes; /* STATX_ATTR_* */
};

/* Fills *ret for `name` beneath dirfd, not followed; "" is dirfd itself. Returns 0 or a negative
 * errno. */
int found_at(int dirfd, const char *name, struct found *ret);
