/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The entries of a policy's directory, as they are now. Reads only: as deep as the patterns reach,
 * all of each tree that goes as a whole, and the first name of a directory that goes if it is
 * empty. It reads in portions (reading.h), so that foreign I/O on the device does not suffer.
 *
 * The directory is opened without following any symbolic link, and from there on one name at a
 * time; no mount is crossed. As systemd-tmpfiles does, a directory on which another process holds a
 * BSD lock is left alone with all that is in it. A tree that cannot be looked at in full, for
 * whatever reason, is kept; so is what is immutable, append-only or pinned, holds such a thing or
 * lies in it, which no deletion would be accepted of. Memory is that of the list of entries; at
 * most twice SCAN_DEPTH directories are open, of the patterns and of one tree, and the base.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "policy/entries.h"
#include "policy/policy.h"
#include "base/fd.h"

/* Directories below this are not looked into: what is there is not matched, and a tree that has
 * them is kept. */
#define SCAN_DEPTH 128

struct holders;
struct pace;
struct protect;

/* What a scan goes by; each may be NULL: there is nothing of it. */
struct scan_by {
	const struct holders *holders;
	const struct protect *protect;
	const struct pace *pace; /* asked before each portion of reading */
};

struct scan {
	int basefd; /* the policy's directory; -1: not looked at */
	struct policy_entries entries;
	uint64_t free_bytes, size_bytes; /* of the filesystem */
	uint64_t free_inodes, inodes;    /* the same; 0: it has as many as there is space for */
	bool inodes_by_space;            /* their number grows with free space */
	int64_t began_nsec;              /* by the clock that the filesystem's times are of */
	/* Directories that were to be looked into and were not. */
	uint64_t unread, locked, mounts, too_deep;
	/* What matches, and is no entry: it is of another user, or of another size. */
	uint64_t other_owner, other_size;
	/* Names of the policy's kind, in the directories that were listed, that no pattern of match
	 * matches, and those that exclude leaves out. */
	uint64_t unmatched, excluded;
	unsigned missing_ages; /* of enum age */
};

#define SCAN_NONE                                                                                  \
	{                                                                                          \
		.basefd = -1                                                                       \
	}

/* Pins a policy's own directory, which may well be on another mount. Returns a descriptor, -ELOOP
 * if there is a symbolic link in the path, or another negative errno. */
int scan_base(const char *path);

/* What of the times that a policy goes by (bits of enum age) is not kept where fd is: then none of
 * its entries has a time. */
unsigned scan_missing_ages(int fd, const struct policy *p);
/* Why not, in words to follow the path. */
const char *scan_missing_words(unsigned missing);

/* Fills *ret, which was SCAN_NONE. `base` is what scan_base has returned for the policy's `path`;
 * it stays the caller's. Each of several directories is a series of its own, or more by group-by,
 * and all of them have to be there. Returns 0; -EWOULDBLOCK if another process has locked a
 * directory itself, -EPERM if it is protected, -ENOENT if there is no `path`, or another negative
 * errno; *ret_why then says it in words, to follow *ret_where, which is one of the policy's paths.
 */
int scan_policy(struct scan *ret, const struct policy *p, int base, const struct scan_by *by,
		const char **ret_where, const char **ret_why);

/* Checks the entries that are about to be deleted once more, because a scan takes time. Keeps
 * entries that are gone or were replaced, that changed in any way since the scan began, or that a
 * process holds now, as DISPOSITION_CHANGED. Returns their number. */
size_t scan_recheck(struct scan *s, const struct policy *p, const struct scan_by *by);

void scan_done(struct scan *s);
