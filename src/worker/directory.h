/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What may be deleted in one directory, as far as that can be known without trying. */
#pragma once

#include "session.h"
#include "base/escape.h"

struct protect;

/* Who passes a descriptor passes the mount it was opened through, which may be one of another
 * namespace: nothing can be renamed between there and here, nor can be told what is protected. If
 * the path leads to the same directory here, that takes the place of *fd, and *f is what was found.
 */
void directory_here(int *fd, struct found *f);

/* Finds out what holds for all names in a directory, which is open as fd: d->near, and d->refusal
 * if none may go. */
void directory_check(struct session_dir *d, int fd, const struct protect *p);

/* Looks at one name in it; fd is d->fd or the like. Returns 0, or a negative errno and (or NULL)
 * why: -ENOENT, -EACCES if it may not be seen or not deleted, -EPERM if it is protected, -EXDEV for
 * a mount point. */
int directory_validate(const struct session_dir *d, int fd, const char *name,
		       const struct protect *p, struct found *ret, const char **ret_why);

/* May names in this directory be deleted by us at all? NULL, or why not. */
const char *directory_closed(int fd, const struct found *dir);

/* An answer to the API: the D-Bus error's name (static), and "PATH: WHY". */
struct failure_text {
	const char *name;
	struct safe_text text;
};

/* name may be NULL: it is about the directory; why may be NULL: the errno's own words. */
void failure_fill(struct failure_text *f, int error, const char *dir, const char *name,
		  const char *why);
