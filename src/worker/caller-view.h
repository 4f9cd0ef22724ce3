/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The mounts of the process that asks. It may be in another mount namespace or have another root
 * than this one: then a path may lead elsewhere, and what it sees read-only may be writable here.
 * What it could not delete or write itself is not deleted or written for it. */
#pragma once

#include <stdbool.h>

struct location;
struct mounts;
struct view;

/* Reads the mount table that fd is open for. `own` are the mounts of this process. Returns 0;
 * -E2BIG if there are more mounts than can be looked through; -EBADMSG; or another negative errno.
 */
int view_new(struct view **ret, int fd, const struct mounts *own);
struct view *view_free(struct view *v);

/* Does an absolute path without symbolic links lead to this location, by a mount that is not
 * read-only? Returns 0; -EROFS; or -ESTALE if it leads elsewhere. */
int view_path(const struct view *v, const char *path, const struct location *at);

/* Is there any path to this location, by a mount that is not read-only? */
bool view_writable(const struct view *v, const struct location *at);

/* Is something mounted at this location or beneath it, or can that not be told? */
bool view_mounts_at(const struct view *v, const struct location *at);

/* Is something mounted at this location or at one around it that lies beneath `base`? */
bool view_mounts_between(const struct view *v, const struct location *base,
			 const struct location *at);
