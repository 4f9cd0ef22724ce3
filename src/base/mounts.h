/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The mount table of a process as proc(5) describes it: mountinfo, read once and taken apart.
 *
 * libmount does the same and more, and brings libblkid, libselinux and libpcre2 with it: their
 * loading took a third of the time of a run on a small directory. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mount {
	uint64_t id, parent;
	dev_t dev;
	const char *root;    /* of the mount within its filesystem; "net:[4026531840]" in nsfs */
	const char *target;  /* absolute */
	const char *options; /* of this mount; as they stand, with the kernel's escapes */
	const char *type;
	const char *source;        /* may be empty */
	const char *super_options; /* of its filesystem; as they stand */
};

struct mounts {
	char *text; /* all strings point into it */
	struct mount *v;
	size_t n;
};

/* Reads a file like /proc/self/mountinfo, in the kernel's order. Returns 0; -EBADMSG if a line is
 * not what proc(5) says, -ENODATA if there is none; or the negative errno of reading it. A table
 * that cannot be understood in full is not returned at all. */
int mounts_read(struct mounts *ret, const char *path);
/* The same of what fd is open for; -EFBIG if it is longer than max. */
int mounts_read_fd(struct mounts *ret, int fd, size_t max);
void mounts_done(struct mounts *m);

/* The mount with this id, or NULL. */
const struct mount *mounts_by_id(const struct mounts *m, uint64_t id);

/* The last mount of this device, or NULL. */
const struct mount *mounts_by_dev(const struct mounts *m, dev_t dev);

/* The mount that an absolute path without symbolic links is on: the last one whose target is the
 * path or the longest part of its beginning. NULL if there is none. */
const struct mount *mounts_by_path(const struct mounts *m, const char *path);

/* Is the path `top`, or does it lie in it? */
bool path_beneath(const char *path, const char *top);

/* Appends "/name" to a path. Returns false, and path is as it was, if that does not fit into size.
 */
bool path_join(char *path, size_t size, const char *name);

/* Is anything mounted at the path (unless strictly), or somewhere in it? */
bool mounts_beneath(const struct mounts *m, const char *path, bool strictly);

/* Where in its filesystem something is: the same through every mount of any part of it, in every
 * mount namespace. The path is empty for the filesystem's own root, and has no slash at its end. */
struct location {
	dev_t dev;
	char path[PATH_MAX];
};

/* The place of an absolute path without symbolic links, which is on that mount. Returns 0; -ESTALE
 * if the path does not lie below where the mount is, or the mount shows a directory that was
 * removed; -ENAMETOOLONG. */
int mount_location(const struct mount *m, const char *path, struct location *ret);

/* Writes the absolute path by which the mount shows a place. Returns 0; -ENOENT if it does not show
 * it; -ESTALE or -ENAMETOOLONG as mount_location(). */
int mount_path(const struct mount *m, const struct location *at, char *path, size_t size);

/* Is what the mount shows at this place of its filesystem, or in a directory at it? */
bool mount_root_beneath(const struct mount *m, const struct location *at);

/* Takes the next layer of an overlay, upper ones and lower ones, from *at on, which is 0 at first.
 * Returns false if there is no further one. What is as long as buf or has escapes is left out. */
bool mount_layer(const struct mount *m, size_t *at, char *buf, size_t size);

/* All options of a mount and its filesystem as one malloc'ed string, with "rw" or "ro" once and in
 * front: "ro" if either is. NULL if memory is out. */
char *mount_all_options(const struct mount *m);

/* Has the mount, or its filesystem, the option of this name? m may be NULL. */
bool mount_has_option(const struct mount *m, const char *name);

/* The same of options between commas, which may be NULL. */
bool mount_option(const char *options, const char *name);

/* Is the mount or its filesystem read-only? */
bool mount_read_only(const struct mount *m);
/* Is its filesystem, through whatever mount? In the namespace of a service others are read-only,
 * too (ProtectSystem=). */
bool mount_filesystem_read_only(const struct mount *m);

/* The value of an option of the mount's filesystem, malloc'ed, without escapes: "/a" for upperdir
 * of "rw,upperdir=/a". NULL if it has none (or memory is out). */
char *mount_value(const struct mount *m, const char *name);

/* Is what is in the mount up to a process of a user other than root (FUSE)? Such a process may
 * leave a process that asks waiting for ever. */
bool mount_is_users(const struct mount *m);

/* Could asking its filesystem keep us waiting for a server, or for a process that serves it? */
bool mount_may_hang(const struct mount *m);

/* The same of the way to an absolute path: of its mount, and of each that is passed on the way. */
bool mounts_may_hang(const struct mounts *m, const char *path);

/* Opens a directory on a mount (O_PATH), whose target is unescaped, by no other mount behind that
 * and no symbolic link: a user who may write above it may put these there at any moment, to where
 * opening hangs. Returns a descriptor, -EXDEV if another mount is there now, or the negative errno
 * of openat2(2) or statx(2). */
int mount_open(const struct mount *m, const char *path);

/* Replaces the kernel's octal escapes ("\040" for a space) in place. Returns false if a backslash
 * begins none; it then stands for itself. */
bool mounts_unescape(char *s);
