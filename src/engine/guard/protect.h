/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is never deleted, on no authority and with no option (I8 of SECURITY.md), by identity.
 *
 * Built once for a run. Holds the identity of each protected directory and file and of each of
 * their ancestors, the place of each in its filesystem, which is the same through all mounts (see
 * mount_location), and the mount table as the kernel spells it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/fd.h"

struct location;
struct mounts;
struct protect;

/* Builds the list. `extra` are further paths (NULL-terminated, may be NULL): the configuration's,
 * and with one more slash before it what is reclaimd's own. Returns 0, or a negative errno if an
 * entry cannot be resolved, which means that nothing may be deleted; *ret_culprit then says which
 * (malloc'ed, may be NULL). What does not exist, or lies where this process cannot look either,
 * needs no protection from it and is no error. */
int protect_new(struct protect **ret, const char *const *extra, char **ret_culprit);
struct protect *protect_free(struct protect *p);

/* The mount table that was read for it; lives as long. The checks below go by the mounts as they
 * are when they are asked. */
const struct mounts *protect_mounts(const struct protect *p);

/* Where a directory is in its filesystem. Returns 0, or -ESTALE if that cannot be told. */
int protect_locate(const struct protect *p, int dirfd, struct location *ret);

/* Have the mounts changed since it was built? */
bool protect_outdated(const struct protect *p);

/* Checks `name` in the directory dirfd, whose identity is id. Returns NULL if it may be deleted, or
 * the reason why not, to follow the path: "is a mount point". staged: it was accepted before and
 * lies in a staging area, which is then no reason. */
const char *protect_check(const struct protect *p, int dirfd, const char *name,
			  const struct identity *id, bool staged);

/* Checks whether `id` is the home directory of the account with that user id, which owns it.
 * Returns NULL or the reason, as protect_check(). protect_check() includes this. */
const char *protect_check_owner(const struct protect *p, uid_t uid, const struct identity *id);

/* True if something in this very directory is protected, so that each name in it must be checked.
 * Everything below a directory where this is false may go if the directory may. */
bool protect_near(const struct protect *p, int dirfd);

/* Checks whether anything in this directory may be deleted at all. As protect_check(). */
const char *protect_check_content(const struct protect *p, int dirfd, bool staged);
