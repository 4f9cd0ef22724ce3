/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Takes a path in, once: from here on there are only directory descriptors and single components.
 */
#pragma once

#include <stddef.h>

#include "protect.h"
#include "base/fd.h"

/* Something accepted for deletion. */
struct target {
	int dirfd; /* O_PATH, the directory it lies in */
	char *dir; /* how that directory is written in messages; "" is the working directory */
	char name[256];
	struct identity id;
};

void target_done(struct target *t);

/* Splits a path into directory and last component, without touching a disk. *ret_dir is malloc'ed
 * ("" for the working directory), name has room for 256 bytes. *ret_slash is set if the path ended
 * with a slash. Returns 0, or a negative errno with *ret_why set to the reason in words. */
int intake_split(const char *path, char **ret_dir, char *name, bool *ret_slash,
		 const char **ret_why);

/* What the kernel says of a path, in words that follow it: the same from the command line and from
 * reclaimd. */
const char *intake_words(int error);

/* Opens the directory that a path's directory part names; a symbolic link anywhere in it is
 * refused. Returns the descriptor (O_PATH) or a negative errno with *ret_why. */
int intake_open_dir(const char *dir, const char **ret_why);

/* Looks at `name` in a directory that intake_open_dir has opened, and asks whether it is protected;
 * slash: one was written behind it. *ret may be filled on failure, too. Returns 0, or a negative
 * errno and the reason in words, as intake does. */
int intake_look(const struct protect *p, int dirfd, const char *name, bool slash,
		struct identity *ret, const char **ret_why);

/* Accepts one path. Returns 0, or a negative errno and the reason in words, to follow the path:
 * -ENOENT if it does not exist, -EPERM if it is protected, -EINVAL and others if it is no path that
 * may be given. */
int intake(const struct protect *p, const char *path, struct target *ret, const char **ret_why);
