/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "scan-tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "reading.h"
#include "base/macros.h"

/* From 1906 to what 63 bits hold, so that the difference of any two fits as well. */
#define TIME_LEAST_SEC (-2000000000LL)
#define TIME_MOST_SEC 7000000000LL

struct tree_walk {
	DIR *dirs[SCAN_DEPTH];
	unsigned n;
	struct tree *t;
	bool skip_open;
	const struct scan_watch *w;
	struct scan_reading *reading;
};

int scan_open(DIR **ret, int dirfd, const char *name)
{
	_cleanup_close_ int fd = fd_open_dir(dirfd, name);
	DIR *dir;

	if (fd < 0)
		return fd;
	/* While it is tried, other processes are refused it, as by systemd-tmpfiles. Where there
	 * are no locks none is held. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return -EWOULDBLOCK;
	} else {
		(void)flock(fd, LOCK_UN);
	}
	dir = fdopendir(fd);
	if (!dir)
		return -ENOMEM;
	(void)fd_take(&fd);
	*ret = dir;
	return 0;
}

int64_t scan_time(const struct statx_timestamp *t)
{
	return CLAMP(t->tv_sec, TIME_LEAST_SEC, TIME_MOST_SEC) * 1000000000LL + t->tv_nsec;
}

uint64_t scan_bytes(const struct statx *sx)
{
	return S_ISDIR(sx->stx_mode) || sx->stx_nlink <= 1 ? sx->stx_blocks * 512 : 0;
}

bool scan_is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static void hold(struct tree *t, enum disposition disposition)
{
	if (t->disposition == DISPOSITION_UNDECIDED)
		t->disposition = disposition;
}

static void enter(struct tree_walk *k, int dirfd, const char *name)
{
	int r = k->n < SCAN_DEPTH ? scan_open(&k->dirs[k->n], dirfd, name) : -ELOOP;

	if (r >= 0)
		k->n++;
	else if (r == -EWOULDBLOCK)
		hold(k->t, DISPOSITION_LOCKED);
	else if (r == -EXDEV)
		hold(k->t, DISPOSITION_MOUNT);
	else if (r != -ENOENT)
		hold(k->t, DISPOSITION_UNREAD);
}

static void name_take(struct tree_walk *k, int dirfd, const char *name)
{
	struct statx sx;

	if (statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &sx) < 0) {
		if (errno != ENOENT)
			hold(k->t, DISPOSITION_UNREAD);
		return;
	}
	k->t->bytes += scan_bytes(&sx);
	k->t->newest_nsec = MAX(k->t->newest_nsec, scan_time(&sx.stx_mtime));
	k->t->changed_nsec = MAX(k->t->changed_nsec, scan_time(&sx.stx_ctime));
	if (sx.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		hold(k->t, DISPOSITION_MOUNT);
	if (k->skip_open && k->w->is_open &&
	    k->w->is_open(k->w->userdata, makedev(sx.stx_dev_major, sx.stx_dev_minor), sx.stx_ino))
		hold(k->t, DISPOSITION_IN_USE);
	if (S_ISDIR(sx.stx_mode))
		enter(k, dirfd, name);
}

void scan_tree(struct tree *t, int at, const char *name, bool skip_open, const struct scan_watch *w,
	       struct scan_reading *reading)
{
	struct tree_walk k = { .t = t, .skip_open = skip_open, .w = w, .reading = reading };

	enter(&k, at, name);
	while (k.n > 0) {
		DIR *top = k.dirs[k.n - 1];
		struct dirent *d;

		reading_go_on(reading);
		errno = 0;
		d = readdir(top);
		if (d && !scan_is_dots(d->d_name)) {
			name_take(&k, dirfd(top), d->d_name);
		} else if (!d) {
			if (errno != 0)
				hold(t, DISPOSITION_UNREAD);
			(void)closedir(top);
			k.n--;
		}
	}
}
