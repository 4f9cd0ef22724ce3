/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unlisted.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mounts.h"
#include "base/staging-dir.h"

/* Limits of a search for sockets. /run has a few thousand entries. */
#define SOCKETS_ENTRIES 65536
#define SOCKETS_DEPTH 32

/* Limits of a search for homes: as deep as /home/REALM/X/ACCOUNT is below /home. A directory of
 * homes is recognised by the first of them, so that one with as many other directories holds
 * none. */
#define HOMES_DIRECTORIES 4096
#define HOMES_DEPTH 2

/* Root, and root as a user namespace shows it in which root of the host does not exist. */
static bool is_roots(const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == 65534;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ---- staging ------------------------------------------------------------------------------- */

/* Returns true if the root of a filesystem or of a mount is at this place: there the daemon makes
 * staging areas. */
static bool is_mount_root(const struct mounts *mounts, const struct location *at)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < mounts->n; i++)
		if (mount_path(&mounts->v[i], at, path, sizeof(path)) >= 0 &&
		    strcmp(path, mounts->v[i].target) == 0)
			return true;
	return at->path[0] == '\0';
}

/* Stats what is at a place that ends in .reclaim, by any mount that shows it. Returns 0, or -ENOENT
 * if none does. */
static int area_stat(const struct mounts *mounts, const struct location *at, struct stat *ret)
{
	char path[PATH_MAX];

	for (size_t i = mounts->n; i > 0; i--) {
		const struct mount *m = &mounts->v[i - 1];
		_cleanup_close_ int fd = -1;
		bool is_root;

		if (mount_path(m, at, path, sizeof(path)) < 0)
			continue;
		is_root = strcmp(path, m->target) == 0;
		if (!is_root)
			*strrchr(path, '/') = '\0';
		fd = mount_open(m, path);
		if (fd >= 0 && fstatat(fd, is_root ? "" : STAGING_DIR, ret,
				       AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0)
			return 0;
	}
	return -ENOENT;
}

/* Returns true if the place, which ends in .reclaim, is a staging area. Cuts the path of at and
 * restores it. */
static bool is_area(const struct mounts *mounts, struct location *at)
{
	char *end = strrchr(at->path, '/');
	struct stat st;
	bool at_root;

	if (area_stat(mounts, at, &st) < 0)
		return true;
	*end = '\0';
	at_root = is_mount_root(mounts, at);
	*end = '/';
	return is_roots(&st) && (at_root || (st.st_mode & 07777) == 0711);
}

bool unlisted_is_staging(const struct mounts *mounts, const struct location *at)
{
	static const char component[] = "/" STAGING_DIR;
	struct location part;

	if (!strstr(at->path, component))
		return false;
	part = *at;
	for (char *p = part.path; (p = strstr(p, component)); p++) {
		char *end = p + sizeof(component) - 1, kept = *end;
		bool is;

		if (kept != '/' && kept != '\0')
			continue;
		*end = '\0';
		is = is_area(mounts, &part);
		*end = kept;
		if (is)
			return true;
	}
	return false;
}

bool unlisted_is_beneath(const struct mounts *mounts, const struct location *at, const char *top,
			 const char *except)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < mounts->n; i++) {
		const struct mount *m = &mounts->v[i];

		if (mount_path(m, at, path, sizeof(path)) >= 0 && path_beneath(path, top) &&
		    !(except && path_beneath(path, except)) &&
		    (!path_beneath(m->target, top) || strcmp(m->target, top) == 0 ||
		     strcmp(m->type, "tmpfs") == 0))
			return true;
	}
	return false;
}

/* ---- homes --------------------------------------------------------------------------------- */

/* Fills in what the path of a home leads to. */
static void home_stat(struct cached_home *h, const char *path)
{
	for (int i = 0; i < 2; i++) {
		struct identity id;

		if (path[0] != '/' ||
		    fd_whereabouts(AT_FDCWD, path, i == 0 ? 0 : AT_SYMLINK_NOFOLLOW, &id) < 0)
			return;
		h->dev[i] = id.dev;
		h->ino[i] = id.ino;
	}
	h->exists = true;
}

static bool home_is(const struct cached_home *h, const struct identity *id)
{
	return h->exists && ((h->dev[0] == id->dev && h->ino[0] == id->ino) ||
			     (h->dev[1] == id->dev && h->ino[1] == id->ino));
}

/* Looks an account up by its name, or, if name is NULL, by its user id. */
static void account_find(struct cached_home *h, const char *name)
{
	struct passwd pw, *found = NULL;
	char buf[16384];

	if (name)
		(void)getpwnam_r(name, &pw, buf, sizeof(buf), &found);
	else
		(void)getpwuid_r(h->uid, &pw, buf, sizeof(buf), &found);
	if (found && found->pw_dir)
		home_stat(h, found->pw_dir);
}

bool unlisted_is_home_of(struct home_cache *c, uid_t uid, const struct identity *id)
{
	struct cached_home *h = &c->v[uid % ELEMENTSOF(c->v)];

	if (!h->known || h->uid != uid) {
		*h = (struct cached_home){ .known = true, .uid = uid };
		account_find(h, NULL);
	}
	return home_is(h, id);
}

static bool is_home_called(const char *name, const struct identity *id)
{
	struct cached_home h = { 0 };

	account_find(&h, name);
	return home_is(&h, id);
}

static const char *homes_search(struct home_cache *c, int dirfd, const char *name, unsigned depth,
				unsigned *directories)
{
	int fd = fd_open_dir(dirfd, name);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const char *why = NULL;
	const struct dirent *e;
	struct identity id;
	struct stat st;

	if (!d) {
		/* A directory that cannot be read cannot be deleted with what is in it. */
		fd_closep(&fd);
		return NULL;
	}
	while (!why && *directories < HOMES_DIRECTORIES && (e = readdir(d))) {
		if (is_dots(e->d_name) || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN) ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
		    !S_ISDIR(st.st_mode))
			continue;
		++*directories;
		id = (struct identity){ .dev = st.st_dev, .ino = st.st_ino };
		if (unlisted_is_home_of(c, st.st_uid, &id))
			why = "holds an account's home directory";
		else if (is_roots(&st) && depth < HOMES_DEPTH)
			why = homes_search(c, fd, e->d_name, depth + 1, directories);
	}
	(void)closedir(d);
	return why;
}

const char *unlisted_check_homes(struct home_cache *c, int dirfd, const char *name)
{
	struct stat dir, st;
	struct identity id;
	unsigned directories = 0;

	if (fstat(dirfd, &dir) < 0 || !is_roots(&dir) ||
	    fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return NULL;
	id = (struct identity){ .dev = st.st_dev, .ino = st.st_ino };
	if (is_home_called(name, &id))
		return "is an account's home directory";
	return S_ISDIR(st.st_mode) && is_roots(&st) ? homes_search(c, dirfd, name, 0, &directories)
						    : NULL;
}

/* ---- sockets ------------------------------------------------------------------------------- */

static const char *sockets_search(int dirfd, const char *name, unsigned depth, unsigned *entries);

static const char *socket_check(int dirfd, const char *name, unsigned depth, unsigned *entries)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return NULL;
	if (S_ISSOCK(st.st_mode))
		return depth > 0 ? "holds a socket in /run" : "is a socket in /run";
	if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		return depth > 0 ? "holds a device node in /run" : "is a device node in /run";
	return S_ISDIR(st.st_mode) ? sockets_search(dirfd, name, depth + 1, entries) : NULL;
}

static const char *sockets_search(int dirfd, const char *name, unsigned depth, unsigned *entries)
{
	int fd = fd_open_dir(dirfd, name);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const char *why = NULL;
	const struct dirent *e;

	if (!d) {
		fd_closep(&fd);
		return NULL;
	}
	while (!why && (e = readdir(d))) {
		if (is_dots(e->d_name))
			continue;
		if (++*entries > SOCKETS_ENTRIES || depth > SOCKETS_DEPTH)
			why = "lies in /run and is too large to be searched for sockets: delete "
			      "what is in it part by part";
		else if (e->d_type != DT_REG && e->d_type != DT_LNK && e->d_type != DT_FIFO)
			why = socket_check(fd, e->d_name, depth, entries);
	}
	(void)closedir(d);
	return why;
}

const char *unlisted_check_sockets(int dirfd, const char *name)
{
	unsigned entries = 0;

	return socket_check(dirfd, name, 0, &entries);
}
