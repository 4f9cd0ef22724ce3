/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What may be deleted in one directory, as far as that can be known without trying. */
#pragma once

#include "session.h"
#include "base/escape.h"

struct protect;

/* With a descriptor comes the mount it was opened through, which may be one of another
 * namespace: nothing can be renamed between there and here, nor can be told what is protected. If
 * the path leads to the same directory here, that takes the place of *fd, and *f is what was found.
 */
void directory_here(int *fd, struct found *f);

/* Finds out what holds for all names in a directory, which is open as fd: d->near, and d->cause
 * and d->refusal if none may go. */
void directory_check(struct session_dir *d, int fd, const struct protect *p);

/* Validates one name in it; fd is d->fd or the like. Returns ERROR_NONE, or why it may not be seen
 * or not deleted, and that in words. */
enum error_cause directory_validate(const struct session_dir *d, int fd, const char *name,
				    const struct protect *p, struct found *ret,
				    const char **ret_why);

/* May names in this directory be deleted by us at all? NULL, or why not. */
const char *directory_closed(int fd, const struct found *dir);

/* Is nothing in the directory `name` of dirfd? Returns 1; 0 if something is; or a negative errno,
 * -ENOTDIR or -ELOOP if it is none. */
int directory_is_empty(int dirfd, const char *name);

/* An answer to the API: the cause, and "PATH: WHY". */
struct failure_text {
	enum error_cause cause;
	struct safe_text text;
};

/* name may be NULL: it is about the directory. */
void failure_fill(struct failure_text *f, enum error_cause cause, const char *dir, const char *name,
		  const char *why);
