/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The names a run is given, on a command line or in a list of millions: grouped by directory, each
 * directory opened once, everything checked before anything is touched. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/core/dirlist.h"
#include "engine/core/name-slice.h"
#include "protect.h"
#include "base/fd.h"

/* The names in one directory. */
struct root_group {
	char *dir; /* as given; "" is the working directory */
	int dirfd; /* O_PATH; -1 where descriptors are too few to keep all open: opened again, and
		    * compared with id, when its turn comes */
	bool accepted; /* resolved; otherwise refused or missing, and nothing of it is touched */
	struct identity id; /* of the directory */
	struct dirlist names;
	struct identity *pins; /* one per name, or NULL if they are not pinned */
	bool explicit_names;   /* named one by one, so that a missing one is an error */

	/* Where it is a unit: the way to its directory from within_fd. What is no longer found
	 * beneath the first component of that has been moved out. NULL: it is none. */
	const char *within;
	int within_fd;
	char within_name[256];   /* the first component */
	struct name_slice slice; /* of a unit without names: these of all that its directory has */
};

/* A unit without names: a slice of a directory. */
static inline bool root_group_is_slice(const struct root_group *g)
{
	return g->within && g->slice.slices > 0;
}

struct roots {
	struct root_group **v; /* in the order they appeared */
	size_t n, n_names;
	size_t missing; /* names of a list that do not exist, found while resolving */
	void *index;    /* tsearch(3) */
	struct root_group *last;
};

/* Told about each path that is refused or does not exist. `why` follows the path. */
typedef void (*roots_refused_t)(const char *path, const char *why, int error, void *userdata);

/* Closes and frees all groups, and leaves an empty struct. */
void roots_done(struct roots *r);

/* Adds one path (explicit: from the command line). Returns 0, -ENOMEM, or another negative errno
 * with *ret_why if this can be no path to delete. */
int roots_add(struct roots *r, const char *path, bool explicit_name, const char **ret_why);

/* Adds every name of a list, `len` bytes at data ended or separated by sep. On failure *ret_bad
 * (malloc'ed) is the offending name. */
int roots_add_list(struct roots *r, const char *data, size_t len, char sep, char **ret_bad,
		   const char **ret_why);

/* Opens each group's directory and checks each name against what is protected. Names from a list
 * are only looked at one by one in directories that hold something protected. Returns how many
 * paths were refused (missing ones not counted), or a negative errno. */
int roots_resolve(struct roots *r, const struct protect *p, roots_refused_t refused,
		  void *userdata);

/* The group's directory: g->dirfd, or, where that is -1, a descriptor opened for the caller, which
 * the caller closes. -ESTALE if another directory is in its place now, or the negative errno of
 * openat2(2). */
int root_group_open(const struct root_group *g);
