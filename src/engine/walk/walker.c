/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/core/slice.h"
#include "engine/guard/roots.h"
#include "engine/guard/user-pin.h"
#include "engine/remove/subvolume.h"
#include "base/array.h"
#include "base/gate.h"
#include "walker.h"
#include "walker-state.h"

/* What of a walk's levels and names stays in memory; the rest is on disk. Sized so that 64 lanes
 * stay within a few MiB, while no ordinary tree ever needs the file. */
#define STACK_RESIDENT KiB(128)

int walker_new(struct walker **ret, struct engine_job *j)
{
	struct walker *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->job = j;
	/* While a chunk is worked off behind a server, nothing of it can be given to other hosts.
	 */
	w->own.allowance = j->o.give && j->profile.server ? &j->no_allowance : &j->allowance;
	if (spill_new(&w->stack, STACK_RESIDENT) < 0 ||
	    anchors_init(&w->anchors, j->fds_per_lane) < 0) {
		walker_free(w);
		return -ENOMEM;
	}
	*ret = w;
	return 0;
}

static void roots_free(struct walker *w)
{
	if (w->roots) {
		dirlist_done(w->roots);
		free(w->roots);
	}
	w->roots = NULL;
}

struct walker *walker_free(struct walker *w)
{
	if (!w)
		return NULL;
	stat_add(&w->job->stats.getdents_calls, w->own.getdents_calls);
	roots_free(w);
	dirlist_done(&w->own);
	dirlist_done(&w->one);
	free(w->results);
	if (w->anchors.v)
		anchors_done(&w->anchors);
	spill_free(w->stack);
	free(w);
	return NULL;
}

void walker_failed(struct walker *w, const char *name, const char *what, int error)
{
	char path[PATH_MAX];

	w->cur.failed = 1;
	trail_path(w, name, path, sizeof(path));
	job_error(w->job, path, what, error);
}

static void skipped(struct walker *w, const char *name, enum skip_reason why)
{
	char path[PATH_MAX];

	if (why != SKIP_MISSING)
		w->cur.failed = 1;
	trail_path(w, name, path, sizeof(path));
	job_skip(w->job, why, path);
}

/* Keeps what a person has pinned. */
static void pinned(struct walker *w, const char *name, const struct user_pin *pin)
{
	char path[PATH_MAX], words[USER_PIN_WORDS];

	w->cur.failed = 1;
	trail_path(w, name, path, sizeof(path));
	job_skip_as(w->job, SKIP_PINNED, path, user_pin_words(pin, /* around= */ false, words));
}

void walker_push(struct walker **list, struct walker *w)
{
	w->next = *list;
	*list = w;
}

struct walker *walker_pop(struct walker **list)
{
	struct walker *w = *list;

	if (w)
		*list = w->next;
	return w;
}

struct batch *walker_batch(struct walker *w)
{
	return w->batch.n > 0 ? &w->batch : NULL;
}

/* A unit that is a slice of its directory: lists that, and leaves it where it is. */
static void slice_begin(struct walker *w)
{
	const struct user_pin pin = user_pin_read(w->node->fd, "");

	roots_free(w);
	w->cur.slice = w->node->group->slice;
	w->cur.shared = 1;
	w->cur.marked = pin.entries;
	w->cur.eof = 0;
}

void walker_begin(struct walker *w, struct task *t)
{
	const char *name = t->names;
	int r, begun;

	w->state = WALK_DESCEND;
	w->batch.n = 0;
	w->entered_usec = 0;
	w->checked_usec = 0;
	w->relists = t->relists;
	w->pins = t->pins;
	w->roots = t->roots;
	r = node_open(t->node);
	begun = trail_begin(w, t->node);
	if (begun < 0)
		w->cur = (struct frame){ .base = 1, .eof = 1, .failed = 1 };
	/* Where the directory of a list cannot be opened again, or is another one now, none of it
	 * is touched. */
	if (begun >= 0 && r == -ESTALE)
		skipped(w, NULL, SKIP_CHANGED);
	else if (begun < 0 || r < 0)
		walker_failed(w, NULL, "cannot open directory", begun < 0 ? begun : r);
	else if (t->roots)
		w->state = WALK_LIST;
	if (w->state == WALK_LIST && root_group_is_slice(t->node->group))
		slice_begin(w);
	for (size_t i = 0; begun >= 0 && i < t->n_names; i++, name += strlen(name) + 1) {
		uint64_t pin;

		memcpy(&pin, name, sizeof(pin));
		name += sizeof(pin);
		r = trail_pend(w, name, pin);
		if (r < 0)
			walker_failed(w, name, "cannot be taken up", r);
	}
	free(t);
}

void walker_give_up(struct walker *w)
{
	if (job_cancelled(w->job))
		stat_add(&w->job->stats.skipped[SKIP_CANCELLED], MAX(w->cur.pending, 1UL));
	w->cur.pend_hi = w->cur.pend_lo;
	w->cur.pending = 0;
	w->cur.eof = 1;
	w->cur.failed = 1;
	spill_cut(w->stack, w->cur.pend_hi);
}

static void batch_make(struct walker *w, int dirfd, int flags, const struct dirlist *l, size_t n)
{
	const char *tree;
	int top = node_tree(w->node, &tree);

	/* The tree's own directory is removed from one that lies outside of it. */
	if (!tree && w->level > (flags & AT_REMOVEDIR ? 1 : 0))
		tree = w->tree;
	w->batch = (struct batch){
		.job = w->job,
		.walker = w,
		.dirfd = dirfd,
		.flags = flags,
		.list = l,
		.n = n,
		.results = w->results,
		.pins = l == w->roots ? w->pins : NULL,
		.marked = l == w->roots || (l == &w->own && w->cur.marked),
		.tree_dirfd = top,
		.tree_name = tree,
		.checked_usec = &w->checked_usec,
	};
}

/* Behind a server a batch of a thousand names is a second and more, in which this walker gives
 * nothing away, be lanes or hosts without work: it gets pieces, between which it does. One entry is
 * a round trip, beside which a look for that is nothing. A ring has many entries under way, and
 * would have to wait for the last of each piece. */
#define PIECE 16

/* The next piece of a list of which everything before `first` is done. */
static struct batch *piece_make(struct walker *w, int dirfd, const struct dirlist *l, size_t first)
{
	const struct engine_job *j = w->job;
	size_t n = w->n_unlinked;

	if (j->profile.server && tasks_setting(j->tasks).backend == BACKEND_THREADS)
		n = MIN(n, first + PIECE);
	batch_make(w, dirfd, 0, l, n);
	w->batch.first = first;
	atomic_init(&w->batch.next, first);
	w->state = WALK_UNLINKED;
	return &w->batch;
}

/* Is it to be opened? With rmdir all are: what is no directory then is found out, not unlinked. */
static bool is_visited(const struct walker *w, const struct dentry *d)
{
	return d->type == DT_DIR || w->job->o.rmdir;
}

/* Has another host the subdirectories? A slice has none: they are those of the host that has cut
 * the directory, which may be in the midst of them. */
static bool is_slice(const struct walker *w)
{
	const struct root_group *g = w->node->group;

	return g && root_group_is_slice(g);
}

/* Leaves in a chunk, from `first` on, what is of this walker's slice. */
static void listing_slice(const struct walker *w, struct dirlist *l, size_t first)
{
	size_t n = first;

	for (size_t i = first; i < l->n; i++)
		if (is_visited(w, &l->v[i])
			    ? !is_slice(w)
			    : name_slice_has(&w->cur.slice, dirlist_name(l, &l->v[i])))
			l->v[n++] = l->v[i];
	l->n = n;
}

/* Makes a chunk's directories pending and moves the rest to its front. Returns how many those are.
 */
static size_t listing_split(struct walker *w, struct dirlist *l)
{
	bool pinned = w->pins && l == w->roots;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct dentry *d = &l->v[i];
		int r;

		if (!is_visited(w, d))
			continue;
		r = trail_pend(w, dirlist_name(l, d), pinned ? d->ino : 0);
		if (r < 0)
			walker_failed(w, dirlist_name(l, d), "cannot be taken up", r);
	}
	for (size_t i = 0; i < l->n; i++)
		if (!is_visited(w, &l->v[i]))
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

/* Was the last entry of this chunk born after the directory's first chunk was read? Then a listing
 * goes on as long as another process goes on filling, and is ended here (negative test 36). */
static bool is_refilled(struct walker *w, int fd)
{
	struct identity id;

	if (w->own.n == 0 ||
	    fd_identity(fd, dirlist_name(&w->own, &w->own.v[w->own.n - 1]), &id) < 0)
		return false;
	return id.btime_nsec > w->cur.began_nsec;
}

/* Reads the next chunk of the current directory, open as fd: a chunk at a time, sorted. NULL if
 * nothing of it can be read, which has been reported. */
static struct dirlist *listing_read(struct walker *w, int fd, struct slice *slice)
{
	bool first = w->cur.cookie == 0;
	struct timespec now;
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
	if (w->cur.began_nsec == 0) {
		(void)clock_gettime(CLOCK_REALTIME, &now);
		w->cur.began_nsec = now.tv_sec * 1000000000LL + now.tv_nsec;
	} else if ((!first || w->cur.relists >= NEWBORN_RELISTS) && is_refilled(w, fd)) {
		w->cur.eof = w->cur.refilled = 1;
	}
	if (!w->job->profile.dirs_as_listed)
		dirlist_sort(&w->own, w->job->profile.sort);
	listed(w, fd, first);
	return &w->own;
}

/* Reading a directory is work, too: from a cold disk it is more than unlinking what it has. */
static struct dirlist *list_paced(struct walker *w, int fd)
{
	struct dirlist *l;
	struct slice slice;

	slice_init(&slice, w->job->pace, &w->job->cancelled, fd);
	(void)slice_open(&slice); /* if it was cancelled, nothing of the list is touched */
	l = listing_read(w, fd, &slice);
	slice_close(&slice);
	return l;
}

/* Has the n files of a chunk in the order of their blocks, if that is worth while. One that is not
 * looked at before it is deleted is not opened either. */
static void order_paced(struct walker *w, int fd, struct dirlist *l, size_t n)
{
	struct slice slice;

	if (!w->job->profile.by_place || !w->job->o.weigh || w->job->o.dry || n < 2 ||
	    (w->pins && l == w->roots) || !places_worth(&w->places))
		return;
	slice_init(&slice, w->job->pace, &w->job->cancelled, fd);
	if (slice_open(&slice) >= 0)
		places_order(&w->places, fd, l, n, &slice);
	slice_close(&slice);
}

/* WALK_LIST: reads a chunk, and makes a batch of what is no directory. */
static struct batch *step_list(struct walker *w)
{
	int fd = trail_fd(w);
	struct dirlist *l;
	size_t n;

	w->state = WALK_DESCEND;
	if (fd < 0) {
		walker_failed(w, NULL, "cannot open directory again", fd);
		walker_give_up(w);
		return NULL;
	}
	l = list_paced(w, fd);
	if (!l)
		return NULL;
	if (w->cur.slice.slices > 0)
		listing_slice(w, l, 0);
	n = listing_split(w, l);
	if (l == &w->own && give_slices(w, fd, n)) {
		listing_slice(w, l, 0);
		n = l->n;
	}
	if (n == 0)
		return NULL;
	if (array_reserve(&w->results, &w->results_cap, n, 1) < 0) {
		walker_failed(w, NULL, "cannot be emptied", -ENOMEM);
		walker_give_up(w);
		return NULL;
	}
	order_paced(w, fd, l, n);
	w->n_unlinked = n;
	return piece_make(w, fd, l, 0);
}

static void digest_one(struct walker *w, const struct dentry *d, int result)
{
	const char *name = dirlist_name(w->batch.list, d);
	struct user_pin pin;
	int r;

	switch (result) {
	case ENOENT:
		skipped(w, name, SKIP_MISSING);
		break;
	case BATCH_CHANGED:
		skipped(w, name, SKIP_CHANGED);
		break;
	case BATCH_PINNED:
		pin = user_pin_read(w->batch.dirfd, name);
		pinned(w, name, &pin);
		break;
	case EISDIR: /* d_type did not say, or did not say so any more */
		if (w->batch.pins) {
			skipped(w, name, SKIP_CHANGED);
			break;
		}
		r = is_slice(w) ? 0 : trail_pend(w, name, 0);
		if (r < 0)
			walker_failed(w, name, "cannot be taken up", r);
		break;
	case BATCH_CANCELLED:
		skipped(w, name, SKIP_CANCELLED);
		break;
	default:
		walker_failed(w, name, "cannot remove", -result);
	}
}

/* What is left of a chunk may be a minute's work behind a server, and other hosts idle now. */
static void rest_give(struct walker *w)
{
	int fd = w->batch.list == &w->own && job_demand(w->job) > 0 ? trail_fd(w) : -1;

	if (fd < 0 || !give_slices(w, fd, w->n_unlinked - w->batch.n))
		return;
	listing_slice(w, &w->own, w->batch.n);
	w->n_unlinked = w->own.n;
}

/* Gives away what other lanes or hosts could do, and goes on with the list. */
static struct batch *next_piece(struct walker *w)
{
	int fd;

	share(w);
	fd = trail_fd(w);
	if (fd >= 0)
		return piece_make(w, fd, w->batch.list, w->batch.n);
	walker_failed(w, NULL, "cannot open directory again", fd);
	walker_give_up(w);
	return NULL;
}

/* WALK_UNLINKED: names every entry of the batch that is not gone. Makes the next piece, if there is
 * one. */
static struct batch *step_unlinked(struct walker *w)
{
	bool moved = false;

	w->state = WALK_DESCEND;
	for (size_t i = w->batch.first; i < w->batch.n; i++) {
		if (w->batch.results[i] == BATCH_MOVED)
			moved = true;
		else if (w->batch.results[i] != 0)
			digest_one(w, &w->batch.list->v[i], w->batch.results[i]);
	}
	if (!moved && w->batch.n < w->n_unlinked)
		rest_give(w);
	if (!moved && w->batch.n < w->n_unlinked)
		return next_piece(w);
	if (w->cur.base) {
		/* A directory that goes is looked into by the server; one that stays has to be
		 * asked whether what was unlinked in it is gone. */
		int r = w->job->profile.sync_dirs && !w->job->o.dry ? fd_sync_dir(w->batch.dirfd)
								    : 0;

		if (r < 0)
			walker_failed(w, NULL,
				      "what was removed in it may come back: the server says", r);
		roots_free(w);
	}
	if (!moved)
		return NULL;
	skipped(w, NULL, SKIP_MOVED);
	walker_give_up(w);
	atomic_store(&w->checked_usec, 0); /* the directory above may still be in its place */
	return NULL;
}

/* True if `name` in dirfd (empty: the directory dirfd itself) is still what was accepted. Only
 * roots are pinned. */
static bool pin_holds(struct walker *w, int dirfd, const char *name, uint64_t pin)
{
	struct identity id;

	if (!w->pins || pin == 0)
		return true;
	return fd_identity(dirfd, name, &id) == 0 && identity_equal(&id, &w->pins[pin - 1]);
}

/* A directory that cannot be opened may be empty, and then rmdir needs no look inside. */
static void descend_failed(struct walker *w, int dirfd, const char *name, uint64_t pin, int error)
{
	switch (error) {
	case -ENOENT:
		skipped(w, name, SKIP_MISSING);
		return;
	case -EXDEV:
		skipped(w, name, SKIP_MOUNT);
		return;
	case -ENOTDIR:
	case -ELOOP:
	case -ESTALE:
		skipped(w, name, SKIP_CHANGED);
		return;
	case -EACCES:
	case -EPERM:
		if (w->job->o.dry || !pin_holds(w, dirfd, name, pin))
			break;
		stat_add(&w->job->stats.unlink_calls, 1);
		if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0) {
			stat_add(&w->job->stats.entries, 1);
			stat_add(&w->job->stats.dirs, 1);
			return;
		}
		break;
	default:
		break;
	}
	walker_failed(w, name, "cannot open directory", error);
}

/* Enters the open directory fd (taken over), or finishes with it at once. Returns true if entered.
 */
static bool enter(struct walker *w, int dirfd, const char *name, int fd)
{
	_cleanup_close_ int own = fd;
	const struct user_pin pin = user_pin_read(fd, "");
	uint64_t now, bytes = 0;
	struct stat st;
	int r = 0;

	if (user_pin_holds(&pin)) {
		pinned(w, name, &pin);
		return false;
	}
	/* What it occupies is asked while it is full, because XFS shrinks it as names go. */
	if (w->job->o.weigh && fstat(fd, &st) == 0)
		bytes = (uint64_t)st.st_blocks * 512;
	/* In a marked one a file may be pinned, which would go with it. */
	if (w->job->profile.subvolumes && !w->job->o.dry && !w->job->o.rmdir && !pin.entries &&
	    subvolume_is(fd))
		r = subvolume_destroy(dirfd, name, fd);
	if (r == -EBUSY) {
		skipped(w, name, SKIP_MOUNT);
		return false;
	}
	if (r > 0) {
		stat_add(&w->job->stats.entries, 1);
		stat_add(&w->job->stats.dirs, 1);
		stat_add(&w->job->stats.subvolumes, 1);
		return false;
	}
	r = trail_down(w, own);
	if (r < 0) {
		walker_failed(w, name, "cannot be entered", r);
		return false;
	}
	(void)fd_take(&own);
	w->cur.eof = w->job->o.rmdir;
	w->cur.bytes = bytes;
	w->cur.marked = pin.entries;
	if (w->level == 1)
		w->cur.relists = (uint8_t)w->relists;
	/* What a directory takes, for share.c: a quarter of the newest. */
	now = now_usec();
	if (w->entered_usec)
		w->dir_usec += ((now - w->entered_usec) >> 2) - (w->dir_usec >> 2);
	w->entered_usec = now;
	return true;
}

/* WALK_DESCEND with something pending: opens the next directory. */
static void descend(struct walker *w)
{
	char name[256];
	uint64_t pin;
	int dirfd = trail_fd(w), fd, r = trail_next(w, name, &pin);

	if (dirfd < 0 || r < 0) {
		walker_failed(w, NULL, "cannot open directory again", dirfd < 0 ? dirfd : r);
		walker_give_up(w);
		return;
	}
	gate("descend", name);
	fd = fd_open_dir(dirfd, name);
	if (fd >= 0 && !pin_holds(w, fd, "", pin)) {
		fd_closep(&fd);
		fd = -ESTALE;
	}
	if (fd >= 0) {
		if (w->level == 0 && !w->node->parent)
			memcpy(w->tree, name, strlen(name) + 1);
		gate("opened", name);
		if (enter(w, dirfd, name, fd)) {
			w->state = w->cur.eof ? WALK_DESCEND : WALK_LIST;
			return;
		}
	} else {
		descend_failed(w, dirfd, name, pin, fd);
	}
	trail_drop_next(w);
}

/* Leaves the current directory, in which another host works, for the one above, which then has to
 * stay as long. */
static void leave_shared(struct walker *w)
{
	trail_up(w);
	w->cur.shared = 1;
}

/* Leaves the current directory, which stays, for the one above, which then has to stay too. */
static void leave_kept(struct walker *w)
{
	bool shared = w->cur.shared;

	stat_add(&w->job->stats.skipped[SKIP_KEPT], 1);
	trail_up(w);
	w->cur.failed = 1;
	w->cur.shared = w->cur.shared || shared;
}

/* WALK_DESCEND with nothing pending: makes the rmdir of the current directory. */
static struct batch *ascend(struct walker *w)
{
	char name[256];
	int fd;

	if (w->cur.failed) {
		leave_kept(w);
		return NULL;
	}
	if (w->cur.shared) {
		leave_shared(w);
		return NULL;
	}
	fd = trail_parent_fd(w);
	if (fd < 0 || trail_name(w, name) < 0) {
		walker_failed(w, NULL,
			      "was emptied, but the way back to the directory above is lost",
			      fd < 0 ? fd : -EIO);
		leave_kept(w);
		return NULL;
	}
	dirlist_clear(&w->one);
	if (dirlist_add(&w->one, name, 0, DT_DIR) < 0 ||
	    array_reserve(&w->results, &w->results_cap, 1, 1) < 0) {
		walker_failed(w, NULL, "cannot remove directory", -ENOMEM);
		leave_kept(w);
		return NULL;
	}
	w->state = WALK_REMOVED;
	batch_make(w, fd, AT_REMOVEDIR, &w->one, 1);
	return &w->batch;
}

/* Lists the directory once more: something appeared in it, or its listing skipped entries. */
static bool relist(struct walker *w)
{
	int fd = trail_fd(w);

	if (w->cur.relists >= RELISTS_MAX || w->cur.refilled || fd < 0 ||
	    lseek(fd, 0, SEEK_SET) < 0)
		return false;
	w->cur.relists++;
	w->cur.eof = 0;
	w->cur.cookie = 0;
	w->cur.reopened = 0;
	stat_add(&w->job->stats.relists, 1);
	w->state = WALK_LIST;
	return true;
}

/* WALK_REMOVED: the current directory is gone, or why not. */
static void step_removed(struct walker *w)
{
	const char *what = "cannot remove directory";
	int result = w->batch.results[0];

	w->state = WALK_DESCEND;
	switch (result) {
	case 0:
		stat_add(&w->job->stats.bytes, w->cur.bytes);
		trail_up(w);
		return;
	case ENOTEMPTY:
	case EEXIST:
		if (!w->job->o.rmdir && relist(w))
			return;
		what = snapdir_holds(trail_fd(w), w->job->profile.snapdir) ? SNAPDIR_HOLDS
		       : w->job->o.rmdir
			       ? "is not empty any more, and stays with all that is in it"
			       : "is being filled by another process, and cannot be removed";
		break;
	case ENOENT:
		skipped(w, NULL, SKIP_MISSING);
		trail_up(w);
		return;
	case BATCH_CANCELLED:
		skipped(w, NULL, SKIP_CANCELLED);
		leave_kept(w);
		return;
	case BATCH_MOVED:
		skipped(w, NULL, SKIP_MOVED);
		atomic_store(&w->checked_usec, 0);
		leave_kept(w);
		return;
	default:
		break;
	}
	walker_failed(w, NULL, what, -result);
	leave_kept(w);
}

struct batch *walker_step(struct walker *w)
{
	struct batch *b = NULL;

	while (!b) {
		switch (w->state) {
		case WALK_LIST:
			b = step_list(w);
			break;
		case WALK_UNLINKED:
			b = step_unlinked(w);
			break;
		case WALK_REMOVED:
			step_removed(w);
			break;
		case WALK_DESCEND:
			if (job_cancelled(w->job) && (w->cur.pending || !w->cur.eof))
				walker_give_up(w);
			/* A name that cannot be moved is visited late, not lost. */
			(void)trail_choose(w);
			share_in_order(w);
			share(w);
			if (w->cur.pending > 0)
				descend(w);
			else if (!w->cur.eof)
				w->state = WALK_LIST;
			else if (!w->cur.base)
				b = ascend(w);
			else {
				roots_free(w);
				trail_end(w);
				return NULL;
			}
		}
	}
	trail_check(w);
	return b;
}
