/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The entries that a policy is about: a list that may be long, so that a million, with names
 * of 40 bytes, take some 100 MiB. Owns the names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "links.h"

/* What becomes of an entry, and why. */
enum disposition {
	DISPOSITION_UNDECIDED = 0,

	/* Kept, whatever the rules say: found by the scan that lists the entries. */
	DISPOSITION_PROTECTED,
	DISPOSITION_MOUNT,
	DISPOSITION_IN_USE,
	DISPOSITION_LOCKED,
	DISPOSITION_UNREAD,
	DISPOSITION_IMMUTABLE, /* it, something in it, or the directory that it is in */
	DISPOSITION_PINNED,    /* by a person (engine/guard/user-pin.h); likewise */
	DISPOSITION_NO_TIME,
	DISPOSITION_AMBIGUOUS_TIME, /* its name has several times */
	DISPOSITION_NO_SERIES,
	DISPOSITION_NOT_EMPTY, /* of POLICY_EMPTY_DIRECTORIES */
	DISPOSITION_OTHER_KEEPS,
	DISPOSITION_CHANGED, /* since it was looked at first */

	/* Kept by rules. */
	DISPOSITION_FUTURE,
	DISPOSITION_KEPT,
	DISPOSITION_MIN_COUNT,
	DISPOSITION_MIN_AGE,
	DISPOSITION_WITHIN_LIMITS,
	DISPOSITION_FREES_NOTHING, /* a limit on space would want it */
	DISPOSITION_CLOCK,         /* its age is not known, as the clock was set */
	DISPOSITION_NO_RULE,
	DISPOSITION_UNIT, /* another entry of its unit stays */

	/* Deleted. */
	DISPOSITION_NOT_KEPT,
	DISPOSITION_MAX_AGE,
	DISPOSITION_MAX_FILES, /* the first of those that limits delete */
	DISPOSITION_MAX_SERIES_SIZE,
	DISPOSITION_MAX_SIZE,
	DISPOSITION_MIN_FREE,
	DISPOSITION_MIN_INODES,

	DISPOSITIONS
};

static inline bool disposition_deletes(enum disposition disposition)
{
	return disposition >= DISPOSITION_NOT_KEPT;
}

/* Returns true if the entry has no time that rules could go by. */
static inline bool disposition_is_timeless(enum disposition disposition)
{
	return disposition == DISPOSITION_NO_TIME || disposition == DISPOSITION_AMBIGUOUS_TIME;
}

/* Does it keep entries that the rules may want to go, and that nothing but a person can let go? */
static inline bool disposition_refuses(enum disposition disposition)
{
	return disposition == DISPOSITION_UNREAD || disposition == DISPOSITION_IMMUTABLE;
}

/* One word or two for programs ("max-age"), and a few words for people. */
const char *disposition_name(enum disposition disposition);
const char *disposition_words(enum disposition disposition);
/* The same of entries that stay, to follow "12 entries are". */
const char *disposition_state(enum disposition disposition);

/* Entries dated this far ahead of the clock are as new as can be: clocks of cameras and servers
 * differ by seconds. Later ones are dated in the future, and stay. */
#define AHEAD_NSEC (10 * 1000000000LL)

struct policy_entry {
	const char *name;   /* path beneath the policy's directory */
	const char *series; /* it belongs to; "" without group-by */
	/* What unit-by matches of the name. Entries of one series with the same text, other than
	 * "", are a unit. NULL is taken for "". */
	const char *unit_name;
	int64_t time_nsec; /* since the epoch */
	uint64_t ino;      /* its identity, with btime_nsec and the type in mode */
	int64_t btime_nsec;
	/* bytes that deleting this entry alone frees, and bytes of all files in it. They differ if
	 * files have names outside the entry. */
	uint64_t bytes, referenced_bytes;
	int64_t pinned_until_sec; /* DISPOSITION_PINNED: since the epoch; 0: without a date */
	uint32_t inodes;          /* that deleting this entry alone frees, at most */
	uint32_t refs; /* index of its first reference; the next entry's follow its last */
	uint32_t uid;
	/* The number of the unit, or of the chain of units: entries with the same number are
	 * deleted together or not at all, and follow each other in the order. Filled by
	 * retention_decide. */
	uint32_t unit;
	uint16_t mode;
	/* Rules of keep that keep it, as bits; and those of them that do so only because it is the
	 * oldest of its series. Filled by retention_decide. */
	uint8_t kept_by, kept_as_oldest;
	bool starts_chain;
	/* The rules want to delete the entry, and it stays: its disposition refuses, or max-delete
	 * keeps it in this run. */
	bool stays;
	/* enum disposition: what the rules say about the entry, even if it cannot be deleted.
	 * DISPOSITION_UNDECIDED if the rules do not apply to it. Filled by retention_decide. */
	uint8_t wanted;
	/* enum disposition: DISPOSITION_UNDECIDED, or why it is kept whatever the rules say; then
	 * what becomes of it. */
	uint8_t disposition;
};

/* Orders entries by time, then by name. Returns a negative number if `x` is older than `y`. */
int entry_compare(const struct policy_entry *x, const struct policy_entry *y);

/* Does it go in this run? */
static inline bool entry_goes(const struct policy_entry *e)
{
	return disposition_deletes((enum disposition)e->disposition) && !e->stays;
}

/* A set of entries, and what the filesystem gains if all of them are deleted: a file is freed when
 * all its names are in the set. */
struct policy_set {
	uint64_t n, bytes, inodes;
	uint64_t referenced_bytes; /* sum of the entries' referenced_bytes */
};

/* The time and the state of the filesystem that a plan is made for. */
struct policy_moment {
	int64_t now_nsec;
	/* The clock was set, and it is not known when it was right: ages count from the earlier of
	 * the two times, now_nsec, and entries dated after the later one are in the future. keep
	 * and max-age delete nothing. */
	bool is_clock_unsure;
	int64_t latest_nsec;             /* the later time; 0: it is now_nsec */
	uint64_t free_bytes, size_bytes; /* of the filesystem; size 0: unknown */
	uint64_t free_inodes, inodes;    /* likewise; inodes 0: without a limit */
	bool unbounded;                  /* max-delete does not apply */
	struct policy_set spent;         /* what limits deleted in this period (limits.h) */
};

struct text_block;

/* The names that an entry has for a file with further names elsewhere. */
struct link_ref {
	uint32_t file; /* index into links.v */
	uint32_t names;
};

/* All zero is empty. */
struct policy_entries {
	struct policy_entry *v;
	size_t n;
	struct text_block *texts; /* of names and series */
	struct links links;       /* files with names in more than one entry, or outside */
	struct link_ref *refs;    /* in the order of the entries */
	size_t n_refs;
	/* 0, or the size of an inode on a filesystem that makes inodes out of free space: freed
	 * space counts as so many free inodes then */
	uint32_t inode_bytes;
};

/* Adds a copy of *e, whose `refs` is ignored. Returns 0, -ENOMEM, or -E2BIG when there are 2^32 of
 * them. */
int entries_add(struct policy_entries *l, const struct policy_entry *e);

/* Adds to the last entry f->names of the names of a file. Returns 0 or -ENOMEM. */
int entries_add_link(struct policy_entries *l, const struct link_file *f);

void entries_done(struct policy_entries *l);

/* There is one set of a list at a time, as its links count the names that are in the set. */

/* Returns the empty set. */
struct policy_set set_begin(struct policy_entries *l);
/* Adds entry i, which is not in the set; removes entry i, which is. */
void set_add(struct policy_set *s, struct policy_entries *l, size_t i);
void set_remove(struct policy_set *s, struct policy_entries *l, size_t i);

/* Returns the number of references of entry i. */
size_t entry_refs(const struct policy_entries *l, size_t i);
