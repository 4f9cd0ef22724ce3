/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A conversation with the master of a mounted MooseFS, the one that its own tools have: over TCP
 * with the mount, which passes it on. Everything is addressed by inode number, nothing by a path.
 *
 * All but moosefs_close return 0 or a negative errno. After -EPROTO, -ETIMEDOUT or -EPIPE there is
 * no more to be said over this one; others are the master's answers. None takes longer than 20 s.
 * Names are components of at most 255 bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct moosefs;
struct mounts;

/* How long the master is held up at once, unless somebody names another time. */
#define MOOSEFS_STALL_USEC 20000
#define MOOSEFS_STALL_LEAST 1000
#define MOOSEFS_STALL_MOST 10000000

/* Begins one about the filesystem that fd is on; mounts may be NULL. -EOPNOTSUPP: it is no MooseFS,
 * or not of the version whose words are known (3); -EPERM: it was not mounted by root, so who
 * answers might be anybody. */
int moosefs_open(struct moosefs **ret, int fd, const struct mounts *mounts);
struct moosefs *moosefs_close(struct moosefs *m);

/* What the last answer took, way included. */
uint64_t moosefs_took_usec(const struct moosefs *m);

/* The entry `name` of a directory. */
int moosefs_lookup(struct moosefs *m, uint32_t directory, const char *name, uint32_t *ret);

struct moosefs_entry {
	const char *name; /* with its end; only during the call */
	uint32_t inode;
	uint32_t nlink;
	uint64_t chunks; /* of a file, at most: the master frees each by itself */
	bool is_directory;
};

/* Lists a directory, so many entries at most: the master does nothing else meanwhile. Returns how
 * many there were; `each` may be NULL, and ends the listing with an error of its own. */
int moosefs_list(struct moosefs *m, uint32_t directory, uint32_t most,
		 int (*each)(const struct moosefs_entry *e, void *userdata), void *userdata);

/* What is in a tree, its own directory included. */
struct moosefs_census {
	uint64_t entries, directories;
	uint64_t kept;   /* of those, undeletable, immutable or append-only */
	uint64_t marked; /* of those, as a snapshot */
};

int moosefs_census(struct moosefs *m, uint32_t inode, struct moosefs_census *ret);

/* Marks a tree as a snapshot, or not. Returns in *ret how many entries have the mark now (or have
 * it not); those of which the master says that they are none of ours are left out. */
int moosefs_mark(struct moosefs *m, uint32_t inode, bool snapshot, uint64_t *ret);

/* Removes a tree all of whose entries have the mark, at once and past the trash; -EPERM if one has
 * it not. */
int moosefs_remove(struct moosefs *m, uint32_t directory, const char *name);

/* How long what is deleted here stays in the trash, in seconds, for what is made in it from now on.
 */
int moosefs_trash_time(struct moosefs *m, uint32_t inode, uint64_t *ret_seconds);

/* Bytes of all files in the trash, and of those that are deleted but open. */
int moosefs_backlog(struct moosefs *m, uint64_t *ret_trash_bytes, uint64_t *ret_open_bytes);
