/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "moosefs-slices.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/core/engine-job.h"
#include "moosefs.h"
#include "engine/guard/roots.h"
#include "engine/guard/user-pin.h"
#include "base/array.h"
#include "base/gate.h"
#include "base/macros.h"
#include "base/mounts.h"

/* A tree is followed so far down; what is deeper is unlinked. */
#define LEVELS_MOST 256

/* Names of directories that are still to be entered, on all levels together; those of more are
 * unlinked. */
#define MEMORY_MOST MiB(16)

/* So many entries are asked for before it is known what one costs the master, and fewer where that
 * could already be too much. */
#define FIRST_MOST 5000
#define FIRST_USEC 4
/* Fewer say nothing about that: their answer's way takes longer. */
#define TELLING 500
/* And never more than this in one directory: the mount passes on no answer of more than 4 MB. */
#define LIST_MOST 30000
#define SLICE_MOST 1000000

/* Removing an entry costs the master so many times what listing it does, as long as that has not
 * been seen (measured: 0.33 and 0.17 µs). */
#define REMOVE_OF_LIST 4

/* How often it is checked that the tree is where it was, and that nothing is mounted in it. */
#define CHECK_EVERY (5 * USEC_PER_MSEC)
#define STALL_SHORT USEC_PER_MSEC

/* A directory on the way down. */
struct level {
	uint32_t inode;
	uint64_t files, chunks;  /* in it that are no directories, and of those */
	bool stays;              /* something directly in it keeps it from going as a whole */
	bool parts;              /* a directory in it may not go as a whole */
	struct dirlist children; /* its directories; fresh: it may go as a whole, or is not known */
	size_t at;               /* the one that is looked at */
	uint64_t below;          /* entries of those that may go */
};

struct slices {
	struct engine_job *j;
	struct moosefs *m;
	int dirfd;
	const char *root; /* name of the tree in dirfd */
	struct identity id;
	uint32_t parent; /* inode number of dirfd */
	struct level *levels;
	size_t depth;
	size_t held_bytes; /* in levels */

	double list_usec, remove_usec; /* an entry costs the master; 0: not known */
	uint64_t way_usec;             /* an answer takes at least */
	uint64_t checked_usec;
	union master_values answer;
	int error; /* of the conversation: there is none any more */
};

/* Keeps the first reason why something is left to be unlinked. */
static void note_kept(struct slices *s, const char *why)
{
	if (s->j->unsliced)
		return;
	s->j->unsliced = s->error < 0 ? "the master no longer answers" : why;
}

/* ---- what the master bears --------------------------------------------------------------------
 */

/* Learns from the last answer what an entry costs, unless it does not say. */
static void cost_learn(struct slices *s, uint64_t n, double *usec)
{
	uint64_t took = moosefs_took_usec(s->m);
	double cost;

	s->way_usec = s->way_usec ? MIN(s->way_usec, took) : took;
	if (n < TELLING)
		return;
	cost = (double)(took - s->way_usec + 1) / (double)n;
	*usec = MAX(cost, *usec * 3 / 4 + cost / 4);
}

/* So many entries fit into what is borne. */
static uint32_t slice_most(const struct slices *s)
{
	double c = s->remove_usec > 0 ? s->remove_usec : s->list_usec * REMOVE_OF_LIST;
	double stall = (double)s->j->o.stall_usec;
	double n = c > 0 ? stall / c : CLAMP(stall / FIRST_USEC, TELLING, FIRST_MOST);

	return (uint32_t)CLAMP(n, 1, SLICE_MOST);
}

/* And so many when a directory is listed. */
static uint32_t list_most(const struct slices *s)
{
	return MIN(slice_most(s), (uint32_t)LIST_MOST);
}

/* Keeps the error that ends the conversation. Returns r. */
static int said(struct slices *s, int r)
{
	if (r < 0 && r != -EPERM && r != -ENOENT && r != -EACCES && r != -EIO)
		s->error = r;
	return r;
}

static int ask(struct slices *s, enum master_message type, uint32_t inode, uint32_t number,
	       const char *name)
{
	const struct master_request q = { type, inode, number, name };

	return said(s, moosefs_ask(s->m, &q, &s->answer));
}

static bool over(const struct slices *s)
{
	return s->error < 0 || job_cancelled(s->j);
}

/* ---- levels -----------------------------------------------------------------------------------
 */

static size_t level_bytes(const struct level *l)
{
	return l->children.cap * sizeof(*l->children.v) + l->children.arena_cap;
}

static int on_entry(const struct moosefs_entry *e, void *userdata)
{
	struct level *l = userdata;

	if (e->is_directory)
		return dirlist_add(&l->children, e->name, e->inode, DT_DIR);
	l->files++;
	l->chunks += e->chunks;
	l->stays = l->stays || e->nlink > 1;
	return 0;
}

/* Lists a directory with no more entries than may go at once. */
static void level_list(struct slices *s, struct level *l)
{
	uint32_t most = 0, next;
	int n;

	do {
		dirlist_clear(&l->children);
		l->files = l->chunks = 0;
		l->stays = false;
		most = list_most(s);
		n = said(s, moosefs_list(s->m, l->inode, most + 1, on_entry, l));
		if (n < 0)
			break;
		cost_learn(s, (uint64_t)n, &s->list_usec);
		next = list_most(s);
	} while ((uint32_t)n > most && next > most + most / 2 && !over(s));
	if (n >= 0 && (uint32_t)n <= most && s->held_bytes + level_bytes(l) <= MEMORY_MOST) {
		if (l->stays)
			note_kept(s, "hard links");
		return;
	}
	note_kept(s, n < 0 ? "not to be listed" : "large directories");
	dirlist_done(&l->children);
	l->stays = true;
}

/* ---- one slice --------------------------------------------------------------------------------
 */

/* True if something is mounted in the tree, or that cannot be told. */
static bool has_mounts(const struct slices *s)
{
	char path[PATH_MAX + NAME_MAX + 2];
	struct mounts mounts;
	bool found;

	if (fd_path(s->dirfd, path, PATH_MAX) < 0 || !path_join(path, sizeof(path), s->root) ||
	    mounts_read(&mounts, "/proc/self/mountinfo") < 0)
		return true;
	found = mounts_beneath(&mounts, path, /* strictly= */ false);
	mounts_done(&mounts);
	return found;
}

/* Is the tree what was accepted, with nothing mounted in it, and are the directories on the way
 * down still in it? */
static bool in_place(struct slices *s)
{
	struct identity now;
	const char *name = s->root;
	uint32_t in = s->parent;

	if (s->checked_usec && now_usec() < s->checked_usec + CHECK_EVERY)
		return true;
	if (fd_identity(s->dirfd, s->root, &now) < 0 || !identity_equal(&now, &s->id)) {
		note_kept(s, "changed");
		return false;
	}
	if (has_mounts(s)) {
		note_kept(s, "mounts in it");
		return false;
	}
	for (size_t i = 0; i < s->depth; i++) {
		const struct level *l = &s->levels[i];

		if (ask(s, MASTER_LOOKUP, in, 0, name) < 0 || s->answer.inode != l->inode) {
			note_kept(s, "moved");
			return false;
		}
		in = l->inode;
		if (i + 1 < s->depth)
			name = dirlist_name(&l->children, &l->children.v[l->at]);
	}
	s->checked_usec = now_usec();
	return true;
}

/* Directories of a slice that are still to be listed. */
struct unlisted {
	uint32_t *v;
	size_t n;
	uint64_t entries, chunks;
	bool linked;
};

static int unlisted_push(struct unlisted *u, uint32_t inode)
{
	uint32_t *v = array_add(&u->v, &u->n, sizeof(*v));

	if (!v)
		return -ENOMEM;
	*v = inode;
	return 0;
}

static int on_marked(const struct moosefs_entry *e, void *userdata)
{
	struct unlisted *u = userdata;

	u->entries++;
	if (e->is_directory)
		return unlisted_push(u, e->inode);
	u->chunks += e->chunks;
	u->linked = u->linked || e->nlink > 1;
	return 0;
}

/* Is all of a marked slice there that was marked, with no other link to any of it, and does it
 * still fit into the stall? */
static bool marked_right(struct slices *s, uint32_t inode, uint64_t entries)
{
	struct unlisted u = { .entries = 1 };
	int r = unlisted_push(&u, inode);

	while (r >= 0 && u.n > 0 && u.entries <= entries && !u.linked && !over(s)) {
		r = said(s, moosefs_list(s->m, u.v[--u.n],
					 (uint32_t)MIN(entries, (uint64_t)LIST_MOST) + 1, on_marked,
					 &u));
		if (r >= 0)
			cost_learn(s, (uint64_t)r, &s->list_usec);
	}
	free(u.v);
	if (u.linked)
		note_kept(s, "hard links");
	if (u.entries + u.chunks > slice_most(s))
		note_kept(s, "large files");
	return r >= 0 && u.n == 0 && u.entries == entries && !u.linked &&
	       u.entries + u.chunks <= slice_most(s);
}

/* Marks, lists once more, and removes. Returns 0 or a negative errno. */
static int slice_take(struct slices *s, uint32_t parent, const char *name, uint32_t inode,
		      const struct moosefs_census *c)
{
	bool was = c->marked == c->entries; /* it is a snapshot */
	int r = was ? 0 : ask(s, MASTER_MARK, inode, /* mark */ 1, NULL);
	uint64_t marked = was ? c->marked : s->answer.changed;

	if (r >= 0) {
		gate("marked", name);
		r = -ESTALE;
		if (marked == c->entries && marked_right(s, inode, c->entries) && in_place(s) &&
		    ask(s, MASTER_LOOKUP, parent, 0, name) >= 0 && s->answer.inode == inode)
			r = over(s) ? -ECANCELED : ask(s, MASTER_REMOVE, parent, 0, name);
	}
	if (r >= 0 || was)
		return r;
	/* What stays is to be as it was. */
	if (s->error == 0)
		(void)ask(s, MASTER_MARK, inode, /* unmark */ 0, NULL);
	if (s->error < 0)
		s->j->unsliced = "no more answers from the master: marks of a snapshot may stay";
	return r;
}

/* Removes a subtree at once. False: it is left. */
static bool slice_remove(struct slices *s, uint32_t parent, const char *name, uint32_t inode)
{
	struct moosefs_census c;
	uint64_t took;

	if (over(s) || !in_place(s) || ask(s, MASTER_CENSUS, inode, 0, NULL) < 0)
		return false;
	c = s->answer.census;
	if (c.kept > 0 || c.entries > slice_most(s)) {
		note_kept(s, c.kept > 0 ? "undeletable files" : "large directories");
		return false;
	}
	if (slice_take(s, parent, name, inode, &c) < 0) {
		if (!over(s))
			note_kept(s, "new entries");
		return false;
	}
	cost_learn(s, c.entries, &s->remove_usec);
	stat_add(&s->j->stats.entries, c.entries);
	stat_add(&s->j->stats.dirs, c.directories);
	stat_add(&s->j->stats.sliced, c.entries);
	/* After a stall the master serves other clients for as long. They do not notice a short
	 * one: there is room for them between any two requests. */
	took = moosefs_took_usec(s->m);
	if (took > STALL_SHORT)
		(void)usleep((useconds_t)MIN(took, s->j->o.stall_usec));
	job_progress(s->j, /* last= */ false);
	return true;
}

/* ---- the tree ---------------------------------------------------------------------------------
 */

/* Begins with a directory. False if it lies too deep. */
static bool enter(struct slices *s, uint32_t inode)
{
	struct level *l;

	if (s->depth == LEVELS_MOST) {
		note_kept(s, "deep directories");
		return false;
	}
	l = &s->levels[s->depth++];
	*l = (struct level){ .inode = inode };
	s->checked_usec = 0; /* another way down */
	level_list(s, l);
	s->held_bytes += level_bytes(l);
	return true;
}

/* All of the current directory has been listed. Returns how many entries may go as a whole with
 * it; of what may not, it removes the parts that may. */
static uint64_t leave(struct slices *s)
{
	struct level *l = &s->levels[s->depth - 1];
	uint64_t own = 1 + l->files + l->chunks, all = own + l->below;
	bool whole = !l->stays;

	if (l->stays || l->parts || all > slice_most(s)) {
		for (size_t i = 0; i < l->children.n; i++) {
			const struct dentry *d = &l->children.v[i];
			const char *name = dirlist_name(&l->children, d);

			if (!d->fresh || !slice_remove(s, l->inode, name, (uint32_t)d->ino))
				whole = false;
		}
		all = own;
	}
	if (all > slice_most(s))
		note_kept(s, l->chunks > l->files ? "large files" : "large directories");
	s->held_bytes -= level_bytes(l);
	dirlist_done(&l->children);
	s->depth--;
	s->checked_usec = 0;
	return whole && all <= slice_most(s) ? all : 0;
}

/* Returns true if the tree is gone. */
static bool tree_remove(struct slices *s)
{
	struct identity now;
	uint64_t entries = 0;

	(void)enter(s, (uint32_t)s->id.ino);
	while (s->depth > 0 && !over(s)) {
		struct level *l = &s->levels[s->depth - 1];

		if (l->at < l->children.n && enter(s, (uint32_t)l->children.v[l->at].ino))
			continue;
		if (l->at == l->children.n) {
			entries = leave(s);
			if (s->depth == 0)
				break;
			l = &s->levels[s->depth - 1];
		} else {
			entries = 0; /* not entered */
		}
		l->below += entries;
		l->children.v[l->at++].fresh = entries > 0;
		l->parts = l->parts || entries == 0;
	}
	if (over(s) || entries == 0 || !slice_remove(s, s->parent, s->root, (uint32_t)s->id.ino))
		return false;
	/* So that the kernel learns it, too: it would remember the name for a second. And only
	 * the mount is believed that the tree is gone. */
	return unlinkat(s->dirfd, s->root, AT_REMOVEDIR) == 0 || errno == ENOENT ||
	       fd_identity(s->dirfd, s->root, &now) < 0 || !identity_equal(&now, &s->id);
}

static bool root_remove(struct slices *s, const struct dirlist *names, const struct dentry *d,
			const struct identity *pins)
{
	const struct user_pin pin = user_pin_read(s->dirfd, dirlist_name(names, d));
	bool gone;

	s->root = dirlist_name(names, d);
	/* The walk will say why it stays. */
	if (user_pin_holds(&pin))
		return false;
	if (strlen(s->root) > NAME_MAX || fd_identity(s->dirfd, s->root, &s->id) < 0 ||
	    !S_ISDIR(s->id.mode) || (pins && !identity_equal(&s->id, &pins[d->ino - 1])) ||
	    s->id.ino > UINT32_MAX)
		return false;
	s->depth = 0;
	gone = tree_remove(s);
	if (s->error < 0)
		note_kept(s, NULL);
	return gone;
}

void moosefs_slices(struct engine_job *j, const struct root_group *g, struct dirlist *names,
		    const struct identity *pins)
{
	struct slices s = { .j = j, .m = j->o.moosefs, .dirfd = root_group_open(g) };
	struct identity id;
	size_t n = 0;

	s.levels = s.dirfd >= 0 ? calloc(LEVELS_MOST, sizeof(*s.levels)) : NULL;
	if (s.levels && fd_identity(s.dirfd, "", &id) >= 0 && id.ino <= UINT32_MAX) {
		s.parent = (uint32_t)id.ino;
		for (size_t i = 0; i < names->n; i++)
			if (over(&s) || !root_remove(&s, names, &names->v[i], pins))
				names->v[n++] = names->v[i];
		names->n = n;
	}
	for (size_t i = 0; s.levels && i < LEVELS_MOST; i++)
		dirlist_done(&s.levels[i].children);
	free(s.levels);
	if (s.dirfd != g->dirfd)
		fd_closep(&s.dirfd);
}
