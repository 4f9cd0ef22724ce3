/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The identity of a file as it is recorded and sent; struct identity (fd.h) is that of the moment.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct identity;

/* The identity of a file across reboots: mount ids and device numbers change, these do not. */
struct lasting_identity {
	uint64_t fsid; /* statfs(2); 0: none, or it does not last */
	uint64_t ino;
	int64_t btime_nsec; /* 0: the filesystem has none */
	uint32_t type;      /* S_IFMT bits */
};

/* The filesystem's part of lasting identities. Returns 0 or a negative errno. */
int lasting_fsid(int fd, uint64_t *ret);

/* What is recorded of an identity on a filesystem with that fsid. */
struct lasting_identity lasting_of(uint64_t fsid, const struct identity *id);
bool lasting_equal(const struct lasting_identity *a, const struct lasting_identity *b);

/* Is it the one that is known, maybe from another host, whose fsid 0 is not compared? */
bool lasting_matches(const struct lasting_identity *is, const struct lasting_identity *known);

/* The lasting identity of `name` beneath dirfd. Returns 0 or a negative errno. */
int lasting_at(int dirfd, const char *name, struct lasting_identity *ret);
