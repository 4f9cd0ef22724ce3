/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A retention policy: which entries of a directory it is about, and which of them may go.
 *
 * Plain data, filled by the configuration, which owns the strings. All zero is a policy that
 * matches nothing and deletes nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Before its name, the origin of a policy's jobs; and of those of a policy of a user's own. */
#define POLICY_ORIGIN "policy:"
#define USER_POLICY_ORIGIN "user-policy:"

/* In the order in which they are written. */
enum keep_rule {
	KEEP_LAST,
	KEEP_HOURLY,
	KEEP_DAILY,
	KEEP_WEEKLY,
	KEEP_MONTHLY,
	KEEP_YEARLY,
	KEEP_WITHIN,
	KEEP_RULES
};

/* How many periods each rule keeps the newest entry of, and for how long all are kept; 0: the rule
 * is not there. */
struct policy_keep {
	uint64_t periods[KEEP_WITHIN];
	uint64_t within_usec;
};

enum policy_kind {
	POLICY_FILES, /* everything but directories; a symbolic link is an entry itself */
	POLICY_TREES, /* directories: each ages and goes as a whole */
	POLICY_EMPTY_DIRECTORIES, /* directories: one in which nothing is ages, and goes */
};

/* Times of a file, as bits. */
enum age { AGE_MTIME = 1 << 0, AGE_CTIME = 1 << 1, AGE_ATIME = 1 << 2, AGE_BIRTH = 1 << 3 };

enum policy_clock {
	CLOCK_AGE,   /* the youngest of some times of an entry, and of all that is in it */
	CLOCK_BIRTH, /* its own birth */
	CLOCK_NAME,
};
enum policy_order { ORDER_OLDEST, ORDER_LARGEST };

/* A share of the filesystem or a number of bytes; of inodes, where it is about those. */
struct policy_space {
	bool is_share;
	double share; /* 0 to 1 */
	uint64_t bytes;
};

struct policy_time {
	enum policy_clock clock;
	unsigned ages; /* of CLOCK_AGE: enum age */
	char *format;  /* of CLOCK_NAME; see name-time.h */
};

struct policy {
	/* Absolute, without . and ..; `path` is where the entries' names begin, and `paths` (NULL:
	 * that alone) are directories beneath it, none in another, on the same mount. */
	char *path, **paths;
	char **match, **exclude; /* NULL-terminated or NULL; see globs.h */
	bool match_ignores_case, exclude_ignores_case;
	/* Of what matches, only this is an entry at all: of these lengths, and of these users, by
	 * name or number; 0 and NULL: of any. */
	uint64_t size_least_bytes, size_below_bytes;
	char **owners;
	char *group_by; /* see selection.h; NULL: one series */
	char *unit_by;  /* the same for units; NULL: each entry is one */
	/* Patterns for the entries that begin a chain, NULL-terminated; NULL: there are no chains.
	 */
	char **chain_start;
	char *timezone; /* of names and of the periods of keep; NULL: the system's */
	struct policy_time time;
	enum policy_kind kind;
	enum policy_order order; /* in which limits delete */
	struct policy_keep keep;
	uint64_t max_age_usec;          /* 0: none */
	uint64_t max_size_bytes;        /* 0: none */
	uint64_t max_series_size_bytes; /* of each series; 0: none */
	uint64_t max_files;             /* 0: none */
	/* While less than `below` is free, until `until` is free; `below` all zero: none. */
	struct policy_space min_free_below, min_free_until;
	struct policy_space min_inodes_below, min_inodes_until; /* the same of inodes */
	uint64_t min_age_usec, min_count; /* nothing younger; never fewer of a series */
	double max_delete;                /* share of what matches that may be deleted: limits.h */
	bool skip_open;
};

/* The name of the policy whose job has this origin, within it; NULL: it is no policy's. */
static inline const char *policy_of_origin(const char *origin)
{
	size_t n = strlen(POLICY_ORIGIN);

	return strncmp(origin, POLICY_ORIGIN, n) == 0 ? origin + n : NULL;
}

/* Is it anything at all? */
bool policy_space_is_set(const struct policy_space *s);
/* What that comes to on a filesystem of this size, or with so many inodes. */
uint64_t policy_space_bytes(const struct policy_space *s, uint64_t size_bytes);

/* Does anything of it delete? Without a rule nothing is ever deleted. */
bool policy_has_rules(const struct policy *p);
bool policy_has_keep(const struct policy *p);
bool policy_has_min_free(const struct policy *p);
bool policy_has_min_inodes(const struct policy *p);
/* Returns the size that writing may bring the policy's entries beyond; 0 if it has none. */
uint64_t policy_max_size(const struct policy *p);
/* Returns true if it has limits that can be watched: min-free, min-free-inodes or a size. */
bool policy_has_marks(const struct policy *p);

/* Its directories, NULL-terminated. */
static inline char *const *policy_paths(const struct policy *p, char *one[static 2])
{
	one[0] = p->path;
	one[1] = NULL;
	return p->paths ? p->paths : one;
}
