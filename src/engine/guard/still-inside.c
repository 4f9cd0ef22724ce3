/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "still-inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/mounts.h"

/* Paths are as old as what the kernel remembers. Where another host can have moved the tree, only
 * looking its name up again asks the server, as soon as what is remembered of it has its time. */
static bool is_there(int dirfd, const char *name)
{
	struct statx sx;

	return statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		     STATX_INO, &sx) == 0 ||
	       (errno != ENOENT && errno != ESTALE);
}

/* A look of a known tree is not asked for again before; nor sooner than ten times what it took, up
 * to a second, which is also what kernels keep of a name on MooseFS. */
#define LOOK_EVERY (5 * USEC_PER_MSEC)
#define LOOK_SHARE 10
#define LOOK_PAUSE_MOST USEC_PER_SEC

/* For so long lanes go on while another one looks. A metadata server may answer a look at a
 * directory that something has just been removed from when that is in its journal, up to five
 * seconds later (CephFS), and removes what is in other directories meanwhile. One that does not
 * answer at all is waited for. */
#define LOOK_LONGEST USEC_PER_SEC

struct tree_look {
	pthread_mutex_t lock;
	struct identity dir; /* that the tree is in, as fd_whereabouts has it */
	char name[NAME_MAX + 1];
	uint64_t seen_usec; /* when the last look ended that found it; 0: none has */
	uint64_t took_usec;
	bool looking; /* a lane is, for that tree */
};

struct tree_look *tree_look_new(void)
{
	struct tree_look *l = calloc(1, sizeof(*l));

	if (l)
		pthread_mutex_init(&l->lock, NULL);
	return l;
}

struct tree_look *tree_look_free(struct tree_look *l)
{
	if (l)
		pthread_mutex_destroy(&l->lock);
	free(l);
	return NULL;
}

/* Whether it is known to be there; if not, *ret_looks says whether this lane looks for all. */
static bool is_known(struct tree_look *l, uint64_t now, const struct identity *dir,
		     const char *name, bool *ret_looks)
{
	bool same = identity_equal(&l->dir, dir) && strcmp(l->name, name) == 0;
	uint64_t due = l->seen_usec + CLAMP(l->took_usec * LOOK_SHARE, LOOK_EVERY, LOOK_PAUSE_MOST);

	*ret_looks = false;
	if (same && l->seen_usec > 0 && now < due + (l->looking ? LOOK_LONGEST : 0))
		return true;
	if (l->looking)
		return false;
	if (!same) {
		l->dir = *dir;
		(void)snprintf(l->name, sizeof(l->name), "%s", name);
		l->seen_usec = l->took_usec = 0;
	}
	l->looking = *ret_looks = true;
	return false;
}

bool tree_look_has(struct tree_look *l, uint64_t now, int dirfd, const char *name)
{
	struct identity dir;
	bool known, looks, there;
	uint64_t took;

	if (fd_whereabouts(dirfd, "", 0, &dir) < 0)
		return is_there(dirfd, name);
	pthread_mutex_lock(&l->lock);
	known = is_known(l, now, &dir, name, &looks);
	pthread_mutex_unlock(&l->lock);
	if (known)
		return true;
	took = now_usec();
	there = is_there(dirfd, name);
	took = now_usec() - took;
	pthread_mutex_lock(&l->lock);
	/* What one lane does not find any more, the others look for themselves. */
	if (looks)
		l->took_usec = took;
	if (looks || !there)
		l->seen_usec = there ? now + took : 0;
	l->looking = l->looking && !looks;
	pthread_mutex_unlock(&l->lock);
	return there;
}

/* Has this kernel removed it? Then it cannot be listed, whatever a server says of its attributes:
 * MooseFS may answer for a moment that it is there. */
static bool is_dead(int fd)
{
	_cleanup_close_ int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char entries[1024];

	return (own < 0 || getdents64(own, entries, sizeof(entries)) < 0) && errno == ENOENT;
}

int still_inside(struct tree_look *l, int dirfd, const char *name, int fd)
{
	char top[PATH_MAX + NAME_MAX + 2], path[PATH_MAX + 1];
	ssize_t len = fd_path(dirfd, top, PATH_MAX + 1);
	ssize_t path_len = fd_path(fd, path, sizeof(path));
	struct statx sx;
	bool gone;

	if (len > 0 && path_len > 0 && path_join(top, sizeof(top), name) &&
	    path_beneath(path, top) &&
	    (l ? tree_look_has(l, now_usec(), dirfd, name) : is_there(dirfd, name)))
		return 1;
	/* A directory that is gone has nothing in it that could be deleted wrongly, and a path that
	 * says so in words which may just as well be a name. Asked last: it may go at any moment.
	 * Where a server does not know it any more (MooseFS), names in it cannot be removed
	 * either. */
	gone = statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_NLINK, &sx) < 0
		       ? errno == ENOENT
		       : sx.stx_nlink == 0;
	if (gone || is_dead(fd))
		return 1;
	return len < 0 ? (int)len : path_len < 0 ? (int)path_len : 0;
}
