/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a walker reads the directory it is in: a chunk at a time, sorted, divided into what is to be
 * unlinked and what is to be visited. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "walker-state.h"

size_t listing_split(struct walker *w, struct dirlist *l)
{
	bool pinned = w->pins && l == w->roots;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct dentry *d = &l->v[i];
		int r;

		if (d->type != DT_DIR)
			continue;
		r = trail_pend(w, dirlist_name(l, d), pinned ? d->ino : 0);
		if (r < 0)
			walker_failed(w, dirlist_name(l, d), "cannot be taken up", r);
	}
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].type != DT_DIR)
			l->v[n++] = l->v[i];
	l->n = n;
	if (w->job->profile.dirs_as_listed)
		dirlist_sort(l, w->job->profile.sort);
	return n;
}

static void listing_path(const struct engine_listing *l, const char *name, char *buf, size_t len)
{
	trail_path((struct walker *)l->walker, name, buf, len);
}

/* Shows a chunk to the caller's callback. */
static void listed(struct walker *w, int fd, bool first)
{
	struct engine_listing l = {
		.fd = fd,
		.depth = w->level,
		.first = first,
		.list = &w->own,
		.path = listing_path,
		.walker = w,
	};

	if (!w->job->o.listed)
		return;
	pthread_mutex_lock(&w->job->report_lock);
	w->job->o.listed(&l, w->job->o.userdata);
	pthread_mutex_unlock(&w->job->report_lock);
}

/* May a short answer of getdents64 be taken for the end of the directory? It also comes when a
 * signal is pending, and completions of a ring arrive as such: with a ring, and wherever that guess
 * was wrong before, only an empty answer is the end. */
static bool short_is_eof(const struct walker *w)
{
	return w->job->profile.short_is_eof && w->cur.relists == 0 &&
	       tasks_setting(w->job->tasks).backend == BACKEND_THREADS;
}

/* A directory in which new entries are found is listed again so often; where they come faster than
 * they go, each listing is longer than the one before. */
#define NEWBORN_RELISTS 2

static int64_t clock_nsec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* Was the last entry of this chunk born after the directory's first chunk was read? Then a listing
 * goes on as long as another process goes on filling, and is ended here: SAFETY test 36. */
static bool is_refilled(struct walker *w, int fd)
{
	struct identity id;

	if (w->own.n == 0 ||
	    fd_identity(fd, dirlist_name(&w->own, &w->own.v[w->own.n - 1]), &id) < 0)
		return false;
	return id.btime_nsec > w->cur.began_nsec;
}

struct dirlist *listing_read(struct walker *w, int fd, struct slice *slice)
{
	bool first = w->cur.cookie == 0;
	int r;

	if (w->roots && w->cur.base) {
		if (w->job->profile.sort != ORDER_LISTED && !w->pins)
			dirlist_find_inodes(w->roots, fd, w->job->profile.sort);
		w->cur.eof = 1;
		return w->roots;
	}
	if (w->cur.reopened && lseek(fd, w->cur.cookie, SEEK_SET) < 0) {
		walker_failed(w, NULL, "cannot go on listing directory", -errno);
		walker_give_up(w);
		return NULL;
	}
	w->cur.reopened = 0;
	r = dirlist_read(&w->own, fd, short_is_eof(w), slice, &w->cur.cookie);
	w->cur.eof = r != 0;
	/* ENOENT: another process removed the directory, which the rmdir will find out and count.
	 */
	if (r < 0 && r != -ENOENT)
		walker_failed(w, NULL, "cannot list directory", r);
	if (w->cur.began_nsec == 0)
		w->cur.began_nsec = clock_nsec();
	else if ((!first || w->cur.relists >= NEWBORN_RELISTS) && is_refilled(w, fd))
		w->cur.eof = w->cur.refilled = 1;
	if (!w->job->profile.dirs_as_listed)
		dirlist_sort(&w->own, w->job->profile.sort);
	listed(w, fd, first);
	return &w->own;
}
