/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "scan.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "policy/globs.h"
#include "policy/name-time.h"
#include "policy/keep-periods.h"
#include "reading.h"
#include "scan-tree.h"
#include "policy/series.h"

struct policy_frame {
	DIR *dir;
	size_t path_len;           /* of this directory's path in struct policy_walk */
	uint64_t *match, *exclude; /* states of the patterns here */
	bool near;
};

struct policy_walk {
	struct scan *s;
	const struct policy *p;
	const struct scan_watch *w;
	struct globs *match, *exclude;
	struct series *series;
	struct scan_reading reading;
	uint64_t *states; /* of all frames */
	struct policy_frame
		frames[SCAN_DEPTH + 1]; /* one more for the states of what is looked at */
	unsigned n;
	char path[PATH_MAX]; /* beneath the policy's directory, of what is looked at */
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

static int open_base(DIR **ret, const char *path)
{
	_cleanup_close_ int fd = scan_base(path);

	return fd < 0 ? fd : scan_open(ret, fd, ".");
}

static bool is_near(const struct policy_walk *k, int dirfd)
{
	return k->w->is_near && k->w->is_near(k->w->userdata, dirfd);
}

static void push(struct policy_walk *k, DIR *dir, size_t path_len)
{
	struct policy_frame *f = &k->frames[k->n];

	assert(k->n < SCAN_DEPTH);
	k->n++;
	f->dir = dir;
	f->path_len = path_len;
	f->near = is_near(k, dirfd(dir));
}

static void pop(struct policy_walk *k)
{
	(void)closedir(k->frames[--k->n].dir);
}

/* Has the patterns' states for a frame that may not be there yet. */
static void place_states(struct policy_walk *k)
{
	size_t match = globs_words(k->match), all = match + globs_words(k->exclude);

	for (size_t i = 0; i <= SCAN_DEPTH; i++) {
		k->frames[i].match = k->states + i * all;
		k->frames[i].exclude = k->frames[i].match + match;
	}
}

static int walk_begin(struct policy_walk *k)
{
	size_t words;
	int r = globs_new(&k->match, k->p->match, /* exclude= */ false);

	if (r >= 0)
		r = globs_new(&k->exclude, k->p->exclude, /* exclude= */ true);
	if (r >= 0)
		r = series_new(&k->series, k->p->group_by);
	if (r < 0)
		return r;
	words = globs_words(k->match) + globs_words(k->exclude);
	k->states = calloc((SCAN_DEPTH + 1) * words + 1, sizeof(*k->states));
	if (!k->states)
		return -ENOMEM;
	place_states(k);
	globs_begin(k->match, k->frames[0].match);
	globs_begin(k->exclude, k->frames[0].exclude);
	return 0;
}

static void walk_done(struct policy_walk *k)
{
	while (k->n > 0)
		pop(k);
	globs_free(k->match);
	globs_free(k->exclude);
	series_free(k->series);
	free(k->states);
}

static bool is_open(const struct policy_walk *k, const struct statx *sx)
{
	return k->p->skip_open && k->w->is_open &&
	       k->w->is_open(k->w->userdata, makedev(sx->stx_dev_major, sx->stx_dev_minor),
			     sx->stx_ino);
}

static bool is_protected(const struct policy_walk *k, const struct policy_frame *f,
			 const char *name)
{
	struct identity id;

	if (!f->near || !k->w->why_name)
		return false;
	return fd_identity(dirfd(f->dir), name, &id) < 0 ||
	       k->w->why_name(k->w->userdata, dirfd(f->dir), name, &id);
}

/* Why it is kept, whatever the rules say. */
static enum disposition disposition_of(const struct policy_walk *k, const struct policy_frame *f,
				       const char *name, const struct statx *sx)
{
	if (sx->stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return DISPOSITION_MOUNT;
	if (is_protected(k, f, name))
		return DISPOSITION_PROTECTED;
	return is_open(k, sx) ? DISPOSITION_IN_USE : DISPOSITION_UNDECIDED;
}

/* The time to go by. Returns false if it has none. */
static bool time_of(const struct policy_walk *k, const struct statx *sx, int64_t newest_nsec,
		    int64_t *ret)
{
	switch (k->p->time.clock) {
	case CLOCK_MTIME:
		*ret = newest_nsec;
		return true;
	case CLOCK_BIRTH:
		*ret = scan_time(&sx->stx_btime);
		return sx->stx_mask & STATX_BTIME;
	case CLOCK_NAME:
		break;
	}
	return name_time_parse(k->p->time.format, k->path, ret);
}

/* Adds what matches, whose path is in k->path. */
static int take(struct policy_walk *k, const struct policy_frame *f, const char *name,
		const struct statx *sx)
{
	struct identity id = identity_of(sx);
	struct policy_entry e = { .name = k->path,
				  .ino = id.ino,
				  .btime_nsec = id.btime_nsec,
				  .mode = id.mode,
				  .uid = sx->stx_uid };
	struct tree t = { .bytes = scan_bytes(sx),
			  .newest_nsec = scan_time(&sx->stx_mtime),
			  .disposition = disposition_of(k, f, name, sx) };
	char series[PATH_MAX];

	if (S_ISDIR(sx->stx_mode))
		scan_tree(&t, dirfd(f->dir), name, k->p->skip_open, k->w, &k->reading);
	if (!time_of(k, sx, t.newest_nsec, &e.time_nsec) && t.disposition == DISPOSITION_UNDECIDED)
		t.disposition = DISPOSITION_NO_TIME;
	if (!series_of(k->series, k->path, series, sizeof(series))) {
		series[0] = '\0';
		t.disposition = t.disposition == DISPOSITION_UNDECIDED ? DISPOSITION_NO_SERIES
								       : t.disposition;
	}
	e.series = series;
	e.bytes = t.bytes;
	e.disposition = (uint8_t)t.disposition;
	return entries_add(&k->s->entries, &e);
}

/* Goes into a directory, whose path is in k->path and whose states are in the next frame. */
static void descend(struct policy_walk *k, const struct policy_frame *f, const char *name)
{
	DIR *dir = NULL;
	int r;

	if (k->n == SCAN_DEPTH) {
		k->s->too_deep++;
		return;
	}
	r = scan_open(&dir, dirfd(f->dir), name);
	if (r >= 0)
		push(k, dir, strlen(k->path));
	else if (r == -EWOULDBLOCK)
		k->s->locked++;
	else if (r == -EXDEV)
		k->s->mounts++;
	else if (r != -ENOENT)
		k->s->unread++;
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

static int name_take(struct policy_walk *k, const struct policy_frame *f, const char *name)
{
	const struct policy_frame *next = f + 1;
	bool deeper, beyond, matches = globs_step(k->match, f->match, name, next->match, &deeper);
	struct statx sx;

	if (!matches && !deeper)
		return 0;
	if (globs_step(k->exclude, f->exclude, name, next->exclude, &beyond))
		return 0;
	if (!path_make(k, f, name)) {
		k->s->too_deep++;
		return 0;
	}
	if (statx(dirfd(f->dir), name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_BASIC_STATS | STATX_BTIME, &sx) < 0) {
		k->s->unread += errno != ENOENT;
		return 0;
	}
	if (matches && S_ISDIR(sx.stx_mode) == (k->p->kind == POLICY_TREES))
		return take(k, f, name, &sx);
	if (deeper && S_ISDIR(sx.stx_mode))
		descend(k, f, name);
	return 0;
}

static int walk_all(struct policy_walk *k)
{
	int r = 0;

	while (k->n > 0 && r >= 0) {
		struct policy_frame *f = &k->frames[k->n - 1];
		struct dirent *d;

		reading_go_on(&k->reading);
		errno = 0;
		d = readdir(f->dir);
		if (d && !scan_is_dots(d->d_name)) {
			r = name_take(k, f, d->d_name);
		} else if (!d) {
			k->s->unread += errno != 0;
			pop(k);
		}
	}
	reading_end(&k->reading);
	return r;
}

static int base_stat(struct scan *s, int fd)
{
	struct timespec now;
	struct statvfs st;

	s->basefd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (s->basefd < 0 || fstatvfs(fd, &st) < 0)
		return -errno;
	s->free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	s->size_bytes = (uint64_t)st.f_blocks * st.f_frsize;
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
	s->began_nsec = now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
	return 0;
}

int scan_policy(struct scan *ret, const struct policy *p, const struct scan_watch *w,
		const char **ret_why)
{
	struct scan s = SCAN_NONE;
	struct policy_walk *k = calloc(1, sizeof(*k));
	DIR *base = NULL;
	int r;

	*ret_why = "cannot be looked at: out of memory";
	if (!k)
		return -ENOMEM;
	*k = (struct policy_walk){ .s = &s, .p = p, .w = w };
	r = walk_begin(k);
	if (r >= 0) {
		r = open_base(&base, p->path);
		*ret_why = open_reason(-r);
	}
	if (base) {
		push(k, base, 0);
		*ret_why = w->why_content ? w->why_content(w->userdata, dirfd(base)) : NULL;
		r = *ret_why ? -EPERM : base_stat(&s, dirfd(base));
		k->reading.pace = w->pace ? w->pace(w->userdata, dirfd(base)) : NULL;
	}
	if (r >= 0)
		r = walk_all(k);
	if (r < 0 && !*ret_why)
		*ret_why = strerror(-r);
	walk_done(k);
	free(k);
	if (r < 0)
		scan_done(&s);
	else
		*ret = s;
	return r;
}

/* Is an entry not what it was, or not in the state in which it was? */
static bool has_changed(const struct policy_walk *k, const struct policy_entry *e)
{
	struct tree t = { .disposition = DISPOSITION_UNDECIDED };
	struct scan_reading unpaced = { 0 };
	struct statx sx;

	if (statx(k->s->basefd, e->name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS,
		  &sx) < 0 ||
	    sx.stx_ino != e->ino)
		return true;
	t.changed_nsec = scan_time(&sx.stx_ctime);
	if (S_ISDIR(sx.stx_mode))
		scan_tree(&t, k->s->basefd, e->name, k->p->skip_open, k->w, &unpaced);
	return t.disposition != DISPOSITION_UNDECIDED || t.changed_nsec > k->s->began_nsec ||
	       is_open(k, &sx);
}

size_t scan_recheck(struct scan *s, const struct policy *p, const struct scan_watch *w,
		    uint64_t *ret_bytes)
{
	struct policy_walk *k = calloc(1, sizeof(*k));
	size_t n = 0;

	*ret_bytes = 0;
	if (k)
		*k = (struct policy_walk){ .s = s, .p = p, .w = w };
	for (size_t i = 0; i < s->entries.n; i++) {
		struct policy_entry *e = &s->entries.v[i];

		/* Without memory to look with, all of it. */
		if (!disposition_deletes(e->disposition) || (k && !has_changed(k, e)))
			continue;
		e->disposition = DISPOSITION_CHANGED;
		*ret_bytes += e->bytes;
		n++;
	}
	free(k);
	return n;
}

void scan_done(struct scan *s)
{
	entries_done(&s->entries);
	fd_closep(&s->basefd);
}
