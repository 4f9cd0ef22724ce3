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

/* The filesystem's part of lasting identities. Returns 0 or a negative errno. */
int lasting_fsid(int fd, uint64_t *ret);

/* What is recorded of an identity on a filesystem with that fsid. */
struct lasting_identity lasting_of(uint64_t fsid, const struct identity *id);
bool lasting_equal(const struct lasting_identity *a, const struct lasting_identity *b);

/* The lasting identity of `name` beneath dirfd. Returns 0 or a negative errno. */
int lasting_at(int dirfd, const char *name, struct lasting_identity *ret);
