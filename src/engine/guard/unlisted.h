/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Protected places that no list of paths can name: staging areas, which lie on any mount; sockets
 * and device nodes in /run; and homes of accounts that getpwent(3) does not return, such as those
 * of SSSD, LDAP and winbind. All are recognised by identity or by their place in a filesystem, so
 * that another mount or another spelling makes no difference. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct identity;
struct location;
struct mounts;

/* Returns true if the place is a staging area or lies in one: if a component of it is called
 * .reclaim, belongs to root, and is either at the root of a mount or has the mode of a staging
 * area. Also true if no mount shows that component, so that its owner is unknown. A .reclaim that a
 * user made is none. */
bool unlisted_is_staging(const struct mounts *mounts, const struct location *at);

/* Returns true if a mount shows the place in the directory `top` or as that directory itself, but
 * not in the directory `except` (NULL: none). A tmpfs that is mounted below top belongs to it, any
 * other filesystem there does not. */
bool unlisted_is_beneath(const struct mounts *mounts, const struct location *at, const char *top,
			 const char *except);

/* Homes that were looked up, by the user id of a directory's owner. Zeroed: empty. */
struct home_cache {
	struct cached_home {
		bool known, exists;
		uid_t uid;
		/* The directory, and the symbolic link that leads to it if the path is one. */
		dev_t dev[2];
		ino_t ino[2];
	} v[64];
};

/* Returns true if the account with this user id has the directory `id` as its home. */
bool unlisted_is_home_of(struct home_cache *c, uid_t uid, const struct identity *id);

/* Checks `name` in the directory dirfd, which lies in /run. Returns NULL, or why it is protected:
 * it is a socket or device node, or a directory with one in it, at any depth. */
const char *unlisted_check_sockets(int dirfd, const char *name);

/* Checks `name` in the directory dirfd, which lies in /home. Returns NULL, or why it is protected:
 * it is the home of an account, or holds one. A directory is searched for homes if root owns it,
 * and as far as root owns what is in it: users' own directories hold no homes of others. */
const char *unlisted_check_homes(struct home_cache *c, int dirfd, const char *name);
