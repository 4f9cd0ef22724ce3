/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The entries that a policy is about: a list that may be long, so that a million, with names
 * of 40 bytes, take some 100 MiB. Owns the names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
	DISPOSITION_NO_RULE,
	DISPOSITION_UNIT, /* another entry of its unit stays */

	/* Deleted. */
	DISPOSITION_NOT_KEPT,
	DISPOSITION_MAX_AGE,
	DISPOSITION_MAX_FILES,
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

struct policy_entry {
	const char *name;   /* path beneath the policy's directory */
	const char *series; /* it belongs to; "" without group-by */
	/* What unit-by matches of the name. Entries of one series with the same text, other than
	 * "", are a unit. NULL is taken for "". */
	const char *unit_name;
	int64_t time_nsec; /* since the epoch */
	uint64_t ino;      /* its identity, with btime_nsec and the type in mode */
	int64_t btime_nsec;
	uint64_t bytes;           /* that deleting it frees */
	int64_t pinned_until_sec; /* DISPOSITION_PINNED: since the epoch; 0: without a date */
	uint32_t inodes;          /* that deleting it frees, at most */
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

struct text_block;

/* All zero is empty. */
struct policy_entries {
	struct policy_entry *v;
	size_t n;
	struct text_block *texts; /* of names and series */
};

/* Adds a copy of *e. Returns 0, -ENOMEM, or -E2BIG when there are 2^32 of them. */
int entries_add(struct policy_entries *l, const struct policy_entry *e);
void entries_done(struct policy_entries *l);
