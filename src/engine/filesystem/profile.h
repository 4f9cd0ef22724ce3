/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The filesystem profile, what each filesystem wants of a deleter: one table.
 *
 * These are starting points measured once (each number names its measurement); what the engine
 * finds while it works wins over them. Safety rules (leases, truncation) are not starting points:
 * they are never widened at run time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

struct mount;

enum backend {
	BACKEND_THREADS,
	BACKEND_URING,
};

/* In which order a chunk of a directory is unlinked. */
enum order {
	ORDER_LISTED,
	ORDER_ASCENDING,
	ORDER_DESCENDING,
};

/* How a large file is made smaller before its last reference goes. */
enum shrink_method {
	SHRINK_NEVER, /* plain unlink: leases do not tell the truth here, or steps gain nothing */
	SHRINK_TAIL,  /* truncate from the end */
	SHRINK_HEAD,  /* punch holes from the start */
};

struct fs_profile {
	const char *family;  /* "ext", "xfs", ...: for messages and the strategy's name */
	unsigned lanes;      /* directories in flight to begin with; 0: one per CPU */
	unsigned lanes_max;  /* as far as `auto` may go */
	unsigned dir_lanes;  /* lanes within one directory that pay; 1: none beyond the first */
	enum order sort;     /* within a chunk of a directory, by inode number */
	bool dirs_as_listed; /* that order is for files only */
	bool by_place;       /* within a chunk files go by their blocks, where these are known */
	bool ascending;      /* keep to that order over the whole tree: one lane only */
	bool short_is_eof;   /* getdents64 answers short only at the end */
	bool remote;         /* waits for answers that are no disk's of this machine */
	bool server;         /* which a server gives, once for each entry */
	bool same_thread;    /* the thread that lists a directory unlinks in it */
	bool sync_dirs;      /* errors of unlinks surface when the directory is synced */
	bool discards;       /* what is freed is discarded by the way */
	bool subvolumes;     /* btrfs: inode 256 is a subvolume's root */
	bool lease_truthful; /* F_SETLEASE is refused whenever a process has the file open: I5 */
	bool atime_truthful; /* the access time of a file is that of the last one, but for options
			      */
	bool inodes_fixed;   /* there are so many inodes, however much space is free */
	enum shrink_method shrink;
	bool map_first; /* a step reads where its blocks are before it begins, see shrink.c */
	uint64_t commit_bytes; /* freed of large files, until the filesystem itself is committed as
				* a step's sync does not: btrfs; 0: never */
	const char *snapdir;   /* where a directory's snapshots are, which keep it; NULL: nowhere */
	const char *reason;    /* one sentence for people */
};

/* Finds the profile of a filesystem by its f_type of statfs(2) and its mount, which may be NULL if
 * that is not known. Always succeeds: an unknown one gets that of "other", which is careful. */
void profile_find(uint32_t f_type, const struct mount *m, struct fs_profile *ret);

/* Whether large files are freed in steps on the filesystem that fd is on; not if that is not known.
 * By its type alone: mount options may still say that they are not. */
bool profile_shrinks(int fd);

/* Returns true if the filesystem of fd is one whose locks are the kernel's own, so that no server
 * is asked for them; false if that is unknown. */
bool profile_is_local(int fd);

/* Whether access times of files are kept where fd is: not with noatime, nor where other machines or
 * the page cache of this one may hide accesses, nor if it is not known. */
bool profile_keeps_atime(int fd);

/* Is the number of inodes fixed where fd is? Not if that is not known. */
bool profile_fixes_inodes(int fd);

/* Below this no file is worth the calls that steps take. */
#define SHRINK_LEAST MiB(2)

/* The smallest step, and what all of them begin and end at a multiple of: no folio of the page
 * cache is larger. 2 MiB where pages have 4 KiB. */
uint64_t shrink_unit(void);

/* Where the unit is larger (pages of 64 KiB: 512 MiB), nothing is shrunk: see profile_find(). */
#define SHRINK_UNIT_MOST MiB(64)
