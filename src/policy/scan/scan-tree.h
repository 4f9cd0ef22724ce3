/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a tree that goes as a whole has in it: see scan.h. */
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include "scan.h"

struct scan_reading;

struct tree {
	uint64_t bytes;       /* that deleting it frees: a file with other names frees nothing */
	int64_t newest_nsec;  /* mtime of whatever changed last */
	int64_t changed_nsec; /* ctime of the same, or of what is not its content */
	enum disposition disposition; /* DISPOSITION_UNDECIDED, or why it is kept */
};

/* Opens a directory for listing. Returns 0; -EWOULDBLOCK if another process has locked it, -EXDEV
 * if a filesystem is mounted there, or another negative errno. */
int scan_open(DIR **ret, int dirfd, const char *name);

/* Nanoseconds since the epoch; what is outside of some centuries becomes their end. */
int64_t scan_time(const struct statx_timestamp *t);

/* What unlinking one entry frees. */
uint64_t scan_bytes(const struct statx *sx);

bool scan_is_dots(const char *name);

/* Looks at everything beneath `name` in the directory `at`, adding to *t, which has what is known
 * of itself. */
void scan_tree(struct tree *t, int at, const char *name, bool skip_open, const struct scan_watch *w,
	       struct scan_reading *reading);
