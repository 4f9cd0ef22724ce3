/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The entries of a directory, a chunk at a time, by getdents64(2): one pass, no stat, and sorted by
 * inode number where the filesystem profits (300,000 entries on ext4: 2.5 s
 * instead of 6.0 s). */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>

#include "engine/filesystem/profile.h"

struct slice;

/* One entry; its name lies in the list's arena. type is a DT_* value. */
struct dentry {
	uint64_t ino;  /* or what else it is sorted by, see places.h */
	uint32_t name; /* offset in the arena */
	uint8_t type;
	uint8_t fresh; /* not yet handled; for the users of a list */
};

/* Embedded by its users; all zero is an empty list. The arena is reused from chunk to chunk. */
struct dirlist {
	char *arena;
	size_t arena_len, arena_cap;
	struct dentry *v;
	size_t n, cap;
	uint64_t getdents_calls;
	/* Bytes this list holds of the engine's common allowance beyond DIRLIST_OWN; see there. */
	size_t borrowed;
	_Atomic size_t *allowance;
};

/* Each list may have this much arena of its own; a larger chunk borrows from an allowance shared by
 * all lists of the job, so that sixty-four lanes cost no more memory than one. */
#define DIRLIST_OWN KiB(64)

void dirlist_done(struct dirlist *l);
void dirlist_clear(struct dirlist *l);

/* Clears the list and reads on from where the descriptor stands. short_is_eof: the filesystem
 * answers less than fits only at the end (the caller must find out if that was not so: rmdir says
 * ENOTEMPTY). slice (or NULL) is the caller's: where it is of few entries, a call reads a block,
 * and the next is made in a slice of its own. Returns 1 at the end of the directory, 0 if there is
 * more, a negative errno if listing failed; what was read before a failure is in the list. "." and
 * ".." are left out. *ret_cookie gets the position behind the last entry, for lseek. */
int dirlist_read(struct dirlist *l, int fd, bool short_is_eof, struct slice *slice,
		 int64_t *ret_cookie);

/* Appends an entry by hand. Returns 0 or -ENOMEM. */
int dirlist_add(struct dirlist *l, const char *name, uint64_t ino, uint8_t type);

/* Fills in the inode numbers of names whose ino is 0, by reading the directory that they are in
 * once, and sorts by them. Does nothing where the directory holds so much more than the list that
 * reading it would cost more than it gains, or cannot be read: the order is a help, never needed.
 * fd may be an O_PATH descriptor. */
void dirlist_find_inodes(struct dirlist *l, int fd, enum order order);

/* Sorts by inode number. */
void dirlist_sort(struct dirlist *l, enum order order);

static inline const char *dirlist_name(const struct dirlist *l, const struct dentry *d)
{
	assert(d->name < l->arena_len);
	return l->arena + d->name;
}
