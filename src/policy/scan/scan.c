/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "scan.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "engine/filesystem/profile.h"
#include "engine/guard/protect.h"
#include "engine/guard/user-pin.h"
#include "holders.h"
#include "owners.h"
#include "policy/retention.h"
#include "policy/selection.h"
#include "reading.h"

/* From 1906 to what 63 bits hold, so that the difference of any two fits as well. */
#define TIME_LEAST_SEC (-2000000000LL)
#define TIME_MOST_SEC 7000000000LL

/* No filesystem makes more inodes of the space that an entry frees: XFS has them of 256 bytes at
 * least. Without them, a large file would count as one, and far more would go than is needed. */
#define INODE_LEAST_BYTES 256

/* What is asked for of all that is in a tree, or is one. */
#define TREE_MASK (STATX_BASIC_STATS | STATX_BTIME)

/* What a tree that goes as a whole, or a file, has in it. */
struct tree {
	/* that deleting it frees; files with several names are in struct policy_walk */
	uint64_t bytes, inodes;
	uint64_t referenced_bytes; /* of all files in it, whether deleting it frees them or not */
	uint64_t length_bytes;     /* of all files */
	int64_t newest_nsec;       /* the youngest of the times that count; INT64_MIN: none */
	int64_t changed_nsec;      /* ctime of whatever changed last */
	enum disposition disposition; /* DISPOSITION_UNDECIDED, or why it is kept */
	int64_t pinned_until_sec;     /* DISPOSITION_PINNED: 0: without a date */
	bool is_timeless;             /* of one of those times it is not known */
	bool incomplete;              /* there is more of it, which could not be looked at */
};

/* A directory in which names are matched. */
struct policy_frame {
	DIR *dir;
	unsigned depth;
	size_t path_len; /* of its path in struct policy_walk */
	uint64_t *state; /* of the selection; that of the next depth follows */
	bool near;
	enum disposition closed; /* why nothing in it may go, or DISPOSITION_UNDECIDED */
	struct user_pin pin;     /* of it; of the policy's directory, or of one around that */
};

struct policy_walk {
	struct scan *s;
	const struct policy *p;
	const struct scan_by *by;
	struct selection *selection;
	struct owners owners;
	struct scan_reading reading;
	struct links inside; /* files with several names, of the entry that is being added */
	uint64_t *states;
	char path[PATH_MAX]; /* beneath the policy's `path`, of what is looked at */
	size_t own;          /* from here on beneath its own directory, as patterns are */
	char series[2 * PATH_MAX], unit[2 * PATH_MAX]; /* of the entry at `path` */
};

static const char *open_reason(int error)
{
	switch (error) {
	case ELOOP:
		return "has a symbolic link in it, which may be changed: give the path that "
		       "realpath(1) prints";
	case EWOULDBLOCK:
		return "is locked by another process (flock), and so left alone";
	case ENOTDIR:
		return "is not a directory";
	case EXDEV:
		return "is on another filesystem than the other paths: give it a policy of its own";
	default:
		return strerror(error);
	}
}

int scan_base(const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* Returns true if another process has locked the directory (flock(2)) and only the directory's
 * owner or root can have done so. A lock on a directory that others may read could be anybody's, so
 * it does not count. */
static bool is_locked(int fd)
{
	struct stat st;

	/* Of a directory with an ACL, the bits of the group are the most that the ACL allows. */
	if (fstat(fd, &st) < 0 || st.st_mode & (S_IRGRP | S_IROTH))
		return false;
	/* Other processes cannot take the lock meanwhile; systemd-tmpfiles tries it the same way.
	 */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK;
	(void)flock(fd, LOCK_UN);
	return false;
}

/* Opens a directory for listing. Returns 0; -EWOULDBLOCK if another process has locked it, -EXDEV
 * if a filesystem is mounted there, or another negative errno. */
static int dir_open(DIR **ret, int dirfd, const char *name)
{
	_cleanup_close_ int fd = fd_open_dir(dirfd, name);
	DIR *dir;

	if (fd < 0)
		return fd;
	if (is_locked(fd))
		return -EWOULDBLOCK;
	dir = fdopendir(fd);
	if (!dir)
		return -ENOMEM;
	(void)fd_take(&fd);
	*ret = dir;
	return 0;
}

/* Returns the next entry of a directory; NULL at its end, or with errno if it cannot be read. */
static const struct dirent *dir_next(struct policy_walk *k, DIR *dir)
{
	struct dirent *d;

	do {
		reading_go_on(&k->reading);
		errno = 0;
		d = readdir(dir);
	} while (d && (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0));
	return d;
}

/* Nanoseconds since the epoch; what is outside of some centuries becomes their end. */
static int64_t time_nsec(const struct statx_timestamp *t)
{
	return CLAMP(t->tv_sec, TIME_LEAST_SEC, TIME_MOST_SEC) * NSEC_PER_SEC + t->tv_nsec;
}

static bool is_open(const struct policy_walk *k, const struct statx *sx)
{
	size_t n;

	return k->p->skip_open && k->by->holders &&
	       holders_find(k->by->holders, makedev(sx->stx_dev_major, sx->stx_dev_minor),
			    sx->stx_ino, &n);
}

/* ---- trees ------------------------------------------------------------------------------------
 */

static void hold(struct tree *t, enum disposition disposition)
{
	if (t->disposition == DISPOSITION_UNDECIDED)
		t->disposition = disposition;
}

/* What is pinned, or holds such a thing, or lies in it, stays; the first pin found says how long.
 */
static void hold_pinned(struct tree *t, const struct user_pin *pin)
{
	if (!user_pin_holds(pin) || t->disposition != DISPOSITION_UNDECIDED)
		return;
	t->disposition = DISPOSITION_PINNED;
	t->pinned_until_sec = pin->kind == USER_PIN_UNTIL ? pin->until_sec : 0;
}

static void hold_pinned_file(struct tree *t, int at, const char *name, const struct statx *sx)
{
	struct user_pin pin = { 0 };

	if (S_ISREG(sx->stx_mode))
		pin = user_pin_read(at, name);
	hold_pinned(t, &pin);
}

/* Something of it is not known, so it is kept. */
static void hold_incomplete(struct tree *t, enum disposition disposition)
{
	t->incomplete = true;
	hold(t, disposition);
}

/* Adds the times that count. To read a directory, as scans do, is no use of it. */
static void ages_add(const struct policy_walk *k, struct tree *t, const struct statx *sx)
{
	const struct {
		const struct statx_timestamp *at;
		enum age age;
		uint32_t known;
	} times[] = {
		{ &sx->stx_mtime, AGE_MTIME, STATX_MTIME },
		{ &sx->stx_ctime, AGE_CTIME, STATX_CTIME },
		{ &sx->stx_atime, AGE_ATIME, STATX_ATIME },
		{ &sx->stx_btime, AGE_BIRTH, STATX_BTIME },
	};
	unsigned ages = k->p->time.ages & ~(S_ISDIR(sx->stx_mode) ? (unsigned)AGE_ATIME : 0U);

	for (size_t i = 0; i < ELEMENTSOF(times); i++) {
		if (!(ages & times[i].age))
			continue;
		if (sx->stx_mask & times[i].known)
			t->newest_nsec = MAX(t->newest_nsec, time_nsec(times[i].at));
		else
			t->is_timeless = true;
	}
}

/* Counts a name of a file that has several. */
static void tree_add_link(struct policy_walk *k, struct tree *t, const struct statx *sx)
{
	const struct link_file f = { .ino = sx->stx_ino,
				     .dev = link_dev(sx->stx_dev_major, sx->stx_dev_minor),
				     .nlink = sx->stx_nlink,
				     .bytes = sx->stx_blocks * 512 };
	struct link_file *file = links_file(&k->inside, &f, SIZE_MAX);

	if (!file)
		hold_incomplete(t, DISPOSITION_UNREAD);
	else if (file->names++ == 0)
		t->referenced_bytes += f.bytes;
}

/* Adds one thing, without what is beneath it. */
static void tree_add(struct policy_walk *k, struct tree *t, const struct statx *sx)
{
	if (S_ISDIR(sx->stx_mode) || sx->stx_nlink <= 1) {
		t->bytes += sx->stx_blocks * 512;
		t->referenced_bytes += sx->stx_blocks * 512;
		t->inodes++;
	} else {
		tree_add_link(k, t, sx);
	}
	/* Sparse files may come to more than any size. */
	if (S_ISREG(sx->stx_mode))
		t->length_bytes += MIN(sx->stx_size, UINT64_MAX - t->length_bytes);
	ages_add(k, t, sx);
	t->changed_nsec = MAX(t->changed_nsec, time_nsec(&sx->stx_ctime));
	if (sx->stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND))
		hold(t, DISPOSITION_IMMUTABLE);
	if (sx->stx_attributes & STATX_ATTR_MOUNT_ROOT)
		hold(t, DISPOSITION_MOUNT);
	if (is_open(k, sx))
		hold(t, DISPOSITION_IN_USE);
}

/* Adds everything beneath `name` in the directory `at`; or, where entries are empty directories,
 * finds that there is something. The recursion ends at SCAN_DEPTH. */
static void tree_add_all(struct policy_walk *k, struct tree *t, int at, const char *name,
			 unsigned depth)
{
	DIR *dir = NULL;
	int r = depth < SCAN_DEPTH ? dir_open(&dir, at, name) : -ELOOP;
	const struct dirent *d;
	struct user_pin pin;
	struct statx sx;

	if (r < 0 && r != -ENOENT)
		hold_incomplete(t, r == -EWOULDBLOCK ? DISPOSITION_LOCKED
				   : r == -EXDEV     ? DISPOSITION_MOUNT
						     : DISPOSITION_UNREAD);
	if (r < 0)
		return;
	pin = user_pin_read(dirfd(dir), "");
	hold_pinned(t, &pin);
	while ((d = dir_next(k, dir))) {
		name = d->d_name;
		if (k->p->kind == POLICY_EMPTY_DIRECTORIES) {
			/* Whatever else keeps it is of no interest. */
			t->disposition = DISPOSITION_NOT_EMPTY;
			t->pinned_until_sec = 0;
			break;
		}
		if (statx(dirfd(dir), name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, TREE_MASK, &sx) <
		    0) {
			if (errno != ENOENT)
				hold_incomplete(t, DISPOSITION_UNREAD);
			continue;
		}
		tree_add(k, t, &sx);
		if (pin.entries)
			hold_pinned_file(t, dirfd(dir), name, &sx);
		if (S_ISDIR(sx.stx_mode))
			tree_add_all(k, t, dirfd(dir), name, depth + 1);
	}
	if (errno != 0)
		hold_incomplete(t, DISPOSITION_UNREAD);
	(void)closedir(dir);
}

/* ---- names that match -------------------------------------------------------------------------
 */

static bool is_protected(const struct policy_walk *k, const struct policy_frame *f,
			 const char *name)
{
	struct identity id;

	return f->near &&
	       (fd_identity(dirfd(f->dir), name, &id) < 0 ||
		protect_check(k->by->protect, dirfd(f->dir), name, &id, /* staged= */ false));
}

/* Sets *ret to the time to go by. Returns DISPOSITION_UNDECIDED, or why there is none. */
static enum disposition time_of(const struct policy_walk *k, const struct statx *sx,
				const struct tree *t, int64_t *ret)
{
	bool known = false;

	switch (k->p->time.clock) {
	case CLOCK_AGE:
		*ret = t->newest_nsec;
		known = !t->is_timeless && !k->s->missing_ages && t->newest_nsec > INT64_MIN;
		break;
	case CLOCK_BIRTH:
		*ret = time_nsec(&sx->stx_btime);
		known = sx->stx_mask & STATX_BTIME;
		break;
	case CLOCK_NAME:
		switch (selection_time(k->selection, k->path + k->own, k->s->began_nsec, ret)) {
		case NAME_TIME_FOUND:
			known = true;
			break;
		case NAME_TIME_AMBIGUOUS:
			return DISPOSITION_AMBIGUOUS_TIME;
		case NAME_TIME_NONE:
			break;
		}
		break;
	}
	return known ? DISPOSITION_UNDECIDED : DISPOSITION_NO_TIME;
}

/* Writes the series of the entry at k->path. The directory is part of it if there are several. */
static int series_find(const struct policy_walk *k, char *buf, size_t len)
{
	size_t n = k->own > 0 ? k->own - 1 : 0;
	int at = snprintf(buf, len, "%.*s%s", (int)n, k->path,
			  n > 0 && k->p->group_by ? SERIES_SEPARATOR : "");

	assert(at >= 0 && (size_t)at < len);
	return selection_series(k->selection, k->path + k->own, buf + at, len - (size_t)at);
}

/* Finds the series and the unit of the entry at k->path. What cannot be known keeps the entry. */
static void place_find(struct policy_walk *k, struct policy_entry *e, struct tree *t)
{
	const char *name = k->path + k->own;
	int r = series_find(k, k->series, sizeof(k->series));

	if (r <= 0) {
		k->series[0] = '\0';
		hold(t, DISPOSITION_NO_SERIES);
	}
	if (selection_unit(k->selection, name, k->unit, sizeof(k->unit)) < 0)
		hold(t, DISPOSITION_UNREAD);
	if (t->disposition == DISPOSITION_NO_SERIES)
		k->unit[0] = '\0';
	e->series = k->series;
	e->unit_name = k->unit;
	e->starts_chain = selection_starts_chain(k->selection, name);
}

/* Has it a length that the policy is about? In doubt it has, and stays. */
static bool has_size(const struct policy *p, const struct tree *t)
{
	return t->incomplete ||
	       (t->length_bytes >= p->size_least_bytes &&
		(p->size_below_bytes == 0 || t->length_bytes < p->size_below_bytes));
}

/* Counts the files of which all names are in the tree. */
static void tree_add_freed(const struct policy_walk *k, struct tree *t)
{
	for (size_t i = 0; i < k->inside.n; i++)
		if (link_is_freed(&k->inside.v[i])) {
			t->bytes += k->inside.v[i].bytes;
			t->inodes++;
		}
}

/* Adds to the last entry the files that have names outside it. */
static int links_take(struct policy_walk *k)
{
	int r = 0;

	for (size_t i = 0; i < k->inside.n && r >= 0; i++)
		if (!link_is_freed(&k->inside.v[i]))
			r = entries_add_link(&k->s->entries, &k->inside.v[i]);
	return r;
}

/* Adds what matches, whose path is in k->path, if the policy is about it. */
static int take(struct policy_walk *k, const struct policy_frame *f, const char *name,
		const struct statx *sx)
{
	struct identity id = identity_of(sx);
	struct policy_entry e = { .name = k->path,
				  .ino = id.ino,
				  .btime_nsec = id.btime_nsec,
				  .mode = (uint16_t)id.mode,
				  .uid = sx->stx_uid };
	struct tree t = { .newest_nsec = INT64_MIN };
	enum disposition time;
	int r;

	if (k->p->owners && !owners_have(&k->owners, sx->stx_uid)) {
		k->s->other_owner++;
		return 0;
	}
	if (!(sx->stx_attributes & STATX_ATTR_MOUNT_ROOT) && is_protected(k, f, name))
		hold(&t, DISPOSITION_PROTECTED);
	hold(&t, f->closed);
	hold_pinned(&t, &f->pin);
	hold_pinned_file(&t, dirfd(f->dir), name, sx);
	links_clear(&k->inside);
	tree_add(k, &t, sx);
	if (S_ISDIR(sx->stx_mode))
		tree_add_all(k, &t, dirfd(f->dir), name, 0);
	tree_add_freed(k, &t);
	if (!has_size(k->p, &t)) {
		k->s->other_size++;
		return 0;
	}
	time = time_of(k, sx, &t, &e.time_nsec);
	if (time != DISPOSITION_UNDECIDED) {
		e.time_nsec = 0;
		/* No rule that goes by it has anything to say of what cannot be deleted. */
		if (disposition_refuses(t.disposition))
			t.disposition = DISPOSITION_UNDECIDED;
		hold(&t, time);
	}
	place_find(k, &e, &t);
	e.bytes = t.bytes;
	e.referenced_bytes = t.referenced_bytes;
	if (k->s->inodes_by_space)
		t.inodes += t.bytes / INODE_LEAST_BYTES;
	e.inodes = (uint32_t)MIN(t.inodes, UINT32_MAX);
	e.disposition = (uint8_t)t.disposition;
	e.pinned_until_sec = t.pinned_until_sec;
	r = entries_add(&k->s->entries, &e);
	return r < 0 ? r : links_take(k);
}

/* Puts a name behind the path of its directory. */
static bool path_make(struct policy_walk *k, const struct policy_frame *f, const char *name)
{
	size_t len = strlen(name), at = f->path_len + (f->path_len > 0);

	if (at + len >= sizeof(k->path))
		return false;
	if (f->path_len > 0)
		k->path[f->path_len] = '/';
	memcpy(k->path + at, name, len + 1);
	return true;
}

static int names_take(struct policy_walk *k, DIR *dir, unsigned depth,
		      const struct user_pin *around);

/* Goes into a directory, whose path is in k->path. */
static int descend(struct policy_walk *k, const struct policy_frame *f, const char *name)
{
	DIR *dir = NULL;
	int r = f->depth + 1 < SCAN_DEPTH ? dir_open(&dir, dirfd(f->dir), name) : -ELOOP;

	if (r >= 0)
		return names_take(k, dir, f->depth + 1, &f->pin);
	if (f->depth + 1 == SCAN_DEPTH)
		k->s->too_deep++;
	else if (r == -EWOULDBLOCK)
		k->s->locked++;
	else if (r == -EXDEV)
		k->s->mounts++;
	else if (r != -ENOENT)
		k->s->unread++;
	return 0;
}

static int name_take(struct policy_walk *k, const struct policy_frame *f, const struct dirent *d)
{
	const char *name = d->d_name;
	bool deeper, is_dir;
	enum selected selected = selection_step(k->selection, f->state, name,
						f->state + selection_words(k->selection), &deeper);
	struct statx sx;
	int r;

	if (selected == SELECTED_NOT || selected == SELECTED_OUT) {
		/* Only what could be an entry; some filesystems do not have the type in the
		 * listing. */
		if (d->d_type == DT_UNKNOWN ||
		    (d->d_type == DT_DIR) == (k->p->kind != POLICY_FILES))
			*(selected == SELECTED_NOT ? &k->s->unmatched : &k->s->excluded) += 1;
		return 0;
	}
	if (!path_make(k, f, name)) {
		k->s->too_deep++;
		return 0;
	}
	if (statx(dirfd(f->dir), name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, TREE_MASK, &sx) < 0) {
		k->s->unread += errno != ENOENT;
		return 0;
	}
	is_dir = S_ISDIR(sx.stx_mode);
	k->s->unmatched += selected == SELECTED_BELOW && is_dir == (k->p->kind != POLICY_FILES);
	if (selected == SELECTED_ENTRY && is_dir == (k->p->kind != POLICY_FILES)) {
		r = take(k, f, name, &sx);
		/* A tree is one with what is in it, and what is not empty is no obstacle. */
		if (r < 0 || k->p->kind != POLICY_EMPTY_DIRECTORIES)
			return r;
	}
	return deeper && is_dir ? descend(k, f, name) : 0;
}

/* Nothing that is in such a directory would be accepted. */
static enum disposition closed_by(const struct policy_walk *k, int fd)
{
	struct statx sx;

	if (k->by->protect && protect_check_content(k->by->protect, fd, /* staged= */ false))
		return DISPOSITION_PROTECTED;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &sx) < 0)
		return DISPOSITION_UNREAD;
	return sx.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)
		       ? DISPOSITION_IMMUTABLE
		       : DISPOSITION_UNDECIDED;
}

/* Takes all names in a directory, whose path is in k->path and whose states are known; closes it.
 * The recursion ends at SCAN_DEPTH. around: the pin of one that it lies in, or none. */
static int names_take(struct policy_walk *k, DIR *dir, unsigned depth,
		      const struct user_pin *around)
{
	const struct policy_frame f = {
		.dir = dir,
		.depth = depth,
		.path_len = strlen(k->path),
		.state = k->states + depth * selection_words(k->selection),
		.near = k->by->protect && protect_near(k->by->protect, dirfd(dir)),
		.closed = closed_by(k, dirfd(dir)),
		.pin = user_pin_holds(around) ? *around : user_pin_read(dirfd(dir), ""),
	};
	const struct dirent *d;
	int r = 0;

	while (r >= 0 && (d = dir_next(k, dir)))
		r = name_take(k, &f, d);
	if (r >= 0)
		k->s->unread += errno != 0;
	(void)closedir(dir);
	return r;
}

static int walk_begin(struct policy_walk *k)
{
	size_t words;
	int r = selection_new(&k->selection, k->p);

	if (r >= 0)
		r = owners_find(&k->owners, k->p->owners, &(const char *){ NULL });
	if (r < 0)
		return r;
	/* One more than there are depths, for what is looked at in the last. */
	words = selection_words(k->selection);
	k->states = calloc((SCAN_DEPTH + 1) * words + 1, sizeof(*k->states));
	if (!k->states)
		return -ENOMEM;
	selection_begin(k->selection, k->states);
	return 0;
}

unsigned scan_missing_ages(int fd, const struct policy *p)
{
	unsigned kept = AGE_MTIME | AGE_CTIME;
	struct statx sx;

	if (profile_keeps_atime(fd))
		kept |= AGE_ATIME;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &sx) >= 0 && sx.stx_mask & STATX_BTIME)
		kept |= AGE_BIRTH;
	return p->time.ages & ~kept;
}

const char *scan_missing_words(unsigned missing)
{
	return missing & AGE_ATIME
		       ? "is where access times (atime) are not kept, or not by this machine "
			 "alone: "
			 "it is mounted with noatime, or of another kind than local disks have"
		       : "is where the times of birth are not kept";
}

static int base_open(struct scan *s, const struct policy *p, int base)
{
	int fd = fd_open_dir(base, ".");
	struct timespec now;
	struct statvfs st;

	if (fd < 0)
		return fd;
	s->basefd = fd;
	s->missing_ages = scan_missing_ages(fd, p);
	if (fstatvfs(fd, &st) < 0)
		return -errno;
	s->free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	s->size_bytes = (uint64_t)st.f_blocks * st.f_frsize;
	s->free_inodes = st.f_favail;
	s->inodes = st.f_files;
	s->inodes_by_space = !profile_fixes_inodes(fd);
	s->entries.inode_bytes = s->inodes_by_space ? INODE_LEAST_BYTES : 0;
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
	s->began_nsec = now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
	return 0;
}

/* Where a directory of the policy begins beneath its `path`. */
static const char *name_in_base(const struct policy *p, const char *path)
{
	const char *name = path + strlen(p->path);

	return name + strspn(name, "/");
}

/* Lists one directory of the policy. *ret_why is set where that needs more words than the error. */
static int dir_list(struct policy_walk *k, const char *path, const char **ret_why)
{
	const struct protect *protect = k->by->protect;
	struct user_pin around;
	const char *name = name_in_base(k->p, path);
	DIR *dir = NULL;
	int r = dir_open(&dir, k->s->basefd, name[0] ? name : ".");

	if (r < 0) {
		*ret_why = open_reason(-r);
		/* Of several, this one is not all that there is. */
		return r == -ENOENT && name[0] ? -ENODEV : r;
	}
	*ret_why = protect ? protect_check_content(protect, dirfd(dir), /* staged= */ false) : NULL;
	if (*ret_why) {
		(void)closedir(dir);
		return -EPERM;
	}
	k->own = name[0] ? strlen(name) + 1 : 0;
	memcpy(k->path, name, strlen(name) + 1);
	around = user_pin_around(dirfd(dir));
	return names_take(k, dir, 0, &around);
}

static int paths_list(struct policy_walk *k, int base, const char **ret_where, const char **ret_why)
{
	char *one[2];
	int r = base < 0 ? base : base_open(k->s, k->p, base);

	*ret_why = r < 0 ? open_reason(-r) : NULL;
	k->reading.pace = k->by->pace;
	for (char *const *path = policy_paths(k->p, one); *path && r >= 0; path++) {
		*ret_where = *path;
		r = dir_list(k, *path, ret_why);
	}
	reading_end(&k->reading);
	return r;
}

int scan_policy(struct scan *ret, const struct policy *p, int base, const struct scan_by *by,
		const char **ret_where, const char **ret_why)
{
	struct scan s = SCAN_NONE;
	struct policy_walk *k = calloc(1, sizeof(*k));
	int r = -ENOMEM;

	*ret_where = p->path;
	*ret_why = "cannot be looked at: out of memory";
	if (k) {
		*k = (struct policy_walk){ .s = &s, .p = p, .by = by };
		r = walk_begin(k);
		if (r == -ESRCH)
			*ret_why = "cannot be looked at: owner names a user that is not known: see "
				   "reclaimctl check-config";
		if (r >= 0)
			r = paths_list(k, base, ret_where, ret_why);
		if (r < 0 && !*ret_why)
			*ret_why = strerror(-r);
		selection_free(k->selection);
		owners_done(&k->owners);
		links_done(&k->inside);
		free(k->states);
		free(k);
	}
	if (r < 0)
		scan_done(&s);
	else
		*ret = s;
	return r;
}

/* Is an entry not what it was, or not in the state in which it was, or has it been used, where that
 * counts? Who pins a file changes its ctime. The filesystem's clock stands still for milliseconds:
 * what has changed as the scan began may have done so after it was looked at. */
static bool has_changed(struct policy_walk *k, const struct policy_entry *e)
{
	struct tree t = { 0 };
	struct statx sx;

	if (statx(k->s->basefd, e->name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, TREE_MASK, &sx) <
		    0 ||
	    sx.stx_ino != e->ino)
		return true;
	links_clear(&k->inside);
	tree_add(k, &t, &sx);
	if (S_ISDIR(sx.stx_mode))
		tree_add_all(k, &t, k->s->basefd, e->name, 0);
	return t.disposition != DISPOSITION_UNDECIDED ||
	       MAX(t.changed_nsec, t.newest_nsec) >= k->s->began_nsec;
}

size_t scan_recheck(struct scan *s, const struct policy *p, const struct scan_by *by)
{
	struct policy_walk *k = calloc(1, sizeof(*k));
	size_t n = 0;

	if (k)
		*k = (struct policy_walk){ .s = s, .p = p, .by = by };
	for (size_t i = 0; i < s->entries.n; i++) {
		struct policy_entry *e = &s->entries.v[i];

		/* Without memory to look with, all of it. */
		if (!entry_goes(e) || (k && !has_changed(k, e)))
			continue;
		e->disposition = DISPOSITION_CHANGED;
		n++;
	}
	if (k)
		links_done(&k->inside);
	free(k);
	return n;
}

void scan_done(struct scan *s)
{
	entries_done(&s->entries);
	fd_closep(&s->basefd);
}
