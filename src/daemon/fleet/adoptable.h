/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether a host may end what another one, which is gone for good, has left in staging. Pure: it is
 * decided by what root of that host has said of a job's directory, and by what is there. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/lasting-identity.h"

/* A mark, as it was looked at by worker_adopt_mark. */
struct left_mark {
	char job[24];       /* how it is called */
	int error;          /* negative: why it says nothing, and the rest is not known */
	bool adopted, left; /* by this host; and it is not adopted again */
	bool own_space;
	uid_t uid;
	char dir_name[NAME_MAX + 1];
	struct lasting_identity dir; /* fsid 0 */
	bool has_dir;                /* the directory that it names is there */
};

/* What is in the staging area of a user. Users may put anything there, and any number of it: only
 * what a mark names is looked at. */
struct left_dir {
	char *name;
	uid_t uid;
	struct lasting_identity id; /* all zero: not looked at, or no directory */
	int error;                  /* of listing it */
	uint64_t names, strange;    /* in it; strange: that no job has put there */
	bool on_record, goes_on;    /* of a job of this host that has it; which has not ended */
};

/* A directory that a job of this host has, or has had. */
struct left_record {
	char *name;
	bool goes_on;
};

struct left_records {
	struct left_record *v;
	size_t n;
};

/* Is it what a name that was staged is called: a number from 1, as it is written? */
bool left_name_is_staged(const char *name);

/* As these are looked for. */
void left_records_sort(struct left_records *records);
void left_marks_sort(struct left_mark *marks, size_t n);

/* Sets on_record and goes_on. records are sorted. */
void left_dir_find_record(struct left_dir *d, const struct left_records *records);

/* The only mark that names it, or NULL. marks are sorted, here and below. */
const struct left_mark *left_dir_named(const struct left_dir *d, struct left_mark *marks, size_t n);

/* The mark by which the directory may be adopted. NULL: it may not, and *ret_why (static) says why.
 * Sets has_dir of all marks that name it. */
const struct left_mark *left_dir_mark(const struct left_dir *d, struct left_mark *marks, size_t n,
				      const char **ret_why);
