/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The walker's way through the tree: levels, the names on them, and which of them are open. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/guard/still-inside.h"
#include "walker-state.h"

/* Past so many levels a message shows the first and the last few. */
#define SHOWN_LEVELS 64

/* Of a directory, when reading back what was spilled has failed. */
#define UNREADABLE                                                                                 \
	"cannot be emptied: the temporary file with names of its directories cannot be read"

int trail_frame_read(struct walker *w, uint64_t off, struct frame *ret)
{
	if (off == w->cur_off) {
		*ret = w->cur;
		return 0;
	}
	return spill_read(w->stack, off, ret, sizeof(*ret));
}

int trail_frame_write(struct walker *w, uint64_t off, const struct frame *f)
{
	if (off == w->cur_off) {
		w->cur = *f;
		return 0;
	}
	return spill_write(w->stack, off, f, sizeof(*f));
}

int trail_read(struct walker *w, uint64_t off, bool end, char *buf, uint64_t *ret_pin)
{
	uint8_t len;
	int r = spill_read(w->stack, end ? off - 1 : off, &len, 1);

	if (r < 0)
		return r;
	off -= end ? trail_record(len) : 0;
	r = spill_read(w->stack, off + 1, ret_pin, sizeof(*ret_pin));
	if (r >= 0)
		r = spill_read(w->stack, off + 1 + sizeof(*ret_pin), buf, len);
	if (r < 0)
		return r;
	buf[len] = '\0';
	return 0;
}

int trail_pend(struct walker *w, const char *name, uint64_t pin)
{
	char record[256 + 2 + sizeof(pin)];
	size_t len = strlen(name);
	int r;

	if (len > 255)
		return -ENAMETOOLONG;
	record[0] = record[trail_record(len) - 1] = (char)len;
	memcpy(record + 1, &pin, sizeof(pin));
	memcpy(record + 1 + sizeof(pin), name, len);
	r = spill_push(w->stack, record, trail_record(len));
	if (r < 0)
		return r;
	w->cur.pend_hi += trail_record(len);
	w->cur.pending++;
	return 0;
}

int trail_next(struct walker *w, char *buf, uint64_t *ret_pin)
{
	return trail_read(w, w->cur.pend_hi, /* end= */ true, buf, ret_pin);
}

int trail_choose(struct walker *w)
{
	char name[256];
	uint64_t pin;
	int r;

	if (w->cur.chosen || w->cur.pending < 2)
		return 0;
	r = trail_read(w, w->cur.pend_lo, /* end= */ false, name, &pin);
	if (r >= 0)
		r = trail_pend(w, name, pin);
	if (r < 0)
		return r;
	w->cur.pend_lo += trail_record(strlen(name));
	w->cur.pending--;
	w->cur.chosen = 1;
	return 0;
}

void trail_drop_next(struct walker *w)
{
	uint8_t len = 0;
	int r = spill_read(w->stack, w->cur.pend_hi - 1, &len, 1);

	w->cur.chosen = 0;
	w->cur.pend_hi -= r < 0 ? w->cur.pend_hi - w->cur.pend_lo : trail_record(len);
	if (r < 0)
		walker_failed(w, NULL, UNREADABLE, r);
	w->cur.pending = w->cur.pend_hi == w->cur.pend_lo ? 0 : w->cur.pending - 1;
	spill_cut(w->stack, w->cur.pend_hi);
}

/* Starts the frame of a directory at the top of the stack and makes it the current one. */
static int frame_push(struct walker *w, struct frame f)
{
	uint64_t off = spill_top(w->stack);
	int r;

	f.pend_lo = f.pend_hi = off + sizeof(f);
	r = spill_push(w->stack, &f, sizeof(f));
	if (r < 0)
		return r;
	w->cur = f;
	w->cur_off = off;
	return 0;
}

int trail_begin(struct walker *w, struct node *n)
{
	w->node = n;
	w->level = w->base_level = 0;
	w->base_off = 0;
	w->tree[0] = '\0';
	spill_cut(w->stack, 0);
	anchors_push(&w->anchors, 0, 0, n->fd, /* borrowed= */ true);
	return frame_push(w, (struct frame){ .base = 1, .eof = 1 });
}

void trail_end(struct walker *w)
{
	while (w->anchors.n > 0)
		anchors_pop(&w->anchors);
	if (w->cur.failed)
		atomic_store(&w->node->failed, true);
	if (w->cur.shared)
		atomic_store(&w->node->shared, true);
	node_put(w->job, w->node);
	w->node = NULL;
}

/* Which directory to look for when a level has to be opened again. A level of which that cannot be
 * kept stays open. */
static bool remember_ino(void *userdata, const struct anchor *v)
{
	struct walker *w = userdata;
	struct frame f;
	struct stat st;

	if (fstat(v->fd, &st) < 0 || trail_frame_read(w, v->frame, &f) < 0)
		return false;
	f.ino = st.st_ino;
	f.reopened = 1;
	return trail_frame_write(w, v->frame, &f) >= 0;
}

int trail_down(struct walker *w, int fd)
{
	int r;

	if (w->anchors.n == w->anchors.max)
		anchors_thin(&w->anchors, remember_ino, w);
	if (w->anchors.n == w->anchors.max)
		return -EMFILE;
	/* The parent's frame must be on the stack before the child's becomes the current one. */
	r = spill_write(w->stack, w->cur_off, &w->cur, sizeof(w->cur));
	if (r < 0)
		return r;
	r = frame_push(w, (struct frame){ .prev = w->cur_off });
	if (r < 0)
		return r;
	w->level++;
	anchors_push(&w->anchors, w->level, w->cur_off, fd, /* borrowed= */ false);
	return 0;
}

void trail_up(struct walker *w)
{
	uint64_t prev = w->cur.prev;
	int r;

	if (anchors_fd(&w->anchors, w->level) >= 0)
		anchors_pop(&w->anchors);
	spill_cut(w->stack, w->cur_off);
	r = spill_read(w->stack, prev, &w->cur, sizeof(w->cur));
	if (r < 0) {
		/* The stack's file is gone: nothing above can be known, so nothing is touched. */
		w->cur = (struct frame){ .base = 1, .eof = 1, .failed = 1 };
		w->cur_off = w->base_off;
		w->level = w->base_level;
		walker_failed(w, NULL, UNREADABLE, r);
		return;
	}
	assert(w->level > w->base_level);
	w->cur_off = prev;
	w->level--;
	trail_drop_next(w);
}

/* Opens the visited child of the frame at *off, and moves *off to the child's frame. Returns the
 * descriptor, or -ESTALE if it is not the directory that was there before. */
static int child_open(struct walker *w, int fd, uint64_t *off)
{
	_cleanup_close_ int child = -1;
	struct frame f;
	struct stat st;
	char name[256];
	uint64_t pin;
	int r = trail_frame_read(w, *off, &f);

	if (r >= 0)
		r = trail_read(w, f.pend_hi, /* end= */ true, name, &pin);
	if (r < 0)
		return r;
	*off = f.pend_hi;
	child = fd_open_dir(fd, name);
	if (child < 0)
		return child;
	r = trail_frame_read(w, *off, &f);
	if (r < 0)
		return r;
	if (fstat(child, &st) < 0 || (f.ino != 0 && f.ino != st.st_ino))
		return -ESTALE;
	return fd_take(&child);
}

/* Goes down so many levels from an anchor. Returns the descriptor, and the frame in *ret_off. */
static int go_down(struct walker *w, const struct anchor *from, uint64_t levels, uint64_t *ret_off)
{
	_cleanup_close_ int fd = -1;

	*ret_off = from->frame;
	for (uint64_t i = 0; i < levels; i++) {
		int next = child_open(w, fd >= 0 ? fd : from->fd, ret_off);

		if (next < 0)
			return next;
		fd_closep(&fd);
		fd = next;
	}
	return fd_take(&fd);
}

/* Opens a level again, from the nearest open one above it. */
static int level_fd(struct walker *w, uint64_t level)
{
	int fd = anchors_fd(&w->anchors, level);

	while (fd < 0) {
		struct anchor from = { .fd = -1 };
		uint64_t off, stride;
		size_t used = 0;
		int r;

		for (size_t i = 0; i < w->anchors.n && w->anchors.v[i].level < level; i++) {
			from = w->anchors.v[i];
			used = i + 1;
		}
		if (from.fd < 0)
			return -ESTALE;
		/* One is kept for the current level, which may stand behind these. */
		if (w->anchors.max < used + 2)
			return -EMFILE;
		stride = anchors_stride(level - from.level, w->anchors.max - used - 1);
		r = go_down(w, &from, stride, &off);
		if (r < 0)
			return r;
		anchors_push(&w->anchors, from.level + stride, off, r, /* borrowed= */ false);
		fd = anchors_fd(&w->anchors, level);
	}
	return fd;
}

int trail_fd(struct walker *w)
{
	return level_fd(w, w->level);
}

int trail_parent_fd(struct walker *w)
{
	return level_fd(w, w->level - 1);
}

int trail_name(struct walker *w, char *buf)
{
	uint64_t pin;

	return trail_read(w, w->cur_off, /* end= */ true, buf, &pin);
}

void trail_path(struct walker *w, const char *name, char *buf, size_t len)
{
	size_t at = node_path(w->node, buf, len);
	uint64_t off = w->base_off, levels = w->level - w->base_level, pin;
	struct frame f;
	char part[256];

	if (levels > SHOWN_LEVELS) {
		(void)snprintf(part, sizeof(part), "[%llu levels]", (unsigned long long)levels - 1);
		at = path_append(buf, len, at, part);
		if (trail_name(w, part) >= 0)
			at = path_append(buf, len, at, part);
	} else {
		for (uint64_t i = 0; i < levels; i++) {
			if (trail_frame_read(w, off, &f) < 0 ||
			    trail_read(w, f.pend_hi, /* end= */ true, part, &pin) < 0)
				break;
			at = path_append(buf, len, at, part);
			off = f.pend_hi;
		}
	}
	if (name)
		(void)path_append(buf, len, at, name);
}

/* How long a directory that was moved out of the tree may go unnoticed; see batch-work.c. */
#define CHECK_EVERY (5 * USEC_PER_MSEC)

/* A look that follows names level by level takes its time; the next is put off by so many times as
 * much, which bounds what looking costs to a tenth. */
#define CHECK_SHARE 10

static bool same_directory(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

/* For a directory deeper than PATH_MAX: finds the deepest open level whose path can be spelled, and
 * follows the names from there. */
static bool in_place(struct walker *w, const char *tree, int top)
{
	const struct anchor *v = w->anchors.v;
	bool same = true;
	size_t from = 0;
	uint64_t off;

	if (!node_in_place(w->job, w->node))
		return false;
	for (size_t i = 0; i < w->anchors.n; i++) {
		int r = v[i].level == 0 && !w->node->parent
				? 1
				: still_inside(w->job->look, top, tree, v[i].fd);

		if (r == 0)
			return false;
		if (r < 0)
			break;
		from = i;
	}
	for (; same && from + 1 < w->anchors.n; from++) {
		uint64_t levels = v[from + 1].level - v[from].level;
		_cleanup_close_ int fd = go_down(w, &v[from], levels, &off);

		same = fd >= 0 && same_directory(fd, v[from + 1].fd);
	}
	return same;
}

void trail_check(struct walker *w)
{
	uint64_t now = now_usec(), last = atomic_load(&w->checked_usec);
	const char *tree;
	int top = node_tree(w->node, &tree), fd, r;

	if (!tree && w->level > 0)
		tree = w->tree;
	if (!tree || last == UINT64_MAX || now < last + MAX(CHECK_EVERY, w->check_pause_usec))
		return;
	fd = anchors_fd(&w->anchors, w->level);
	r = fd < 0 ? -ENAMETOOLONG : still_inside(w->job->look, top, tree, fd);
	if (r < 0)
		r = in_place(w, tree, top);
	w->check_pause_usec = (now_usec() - now) * CHECK_SHARE;
	atomic_store(&w->checked_usec, r == 1 ? now_usec() : UINT64_MAX);
}
