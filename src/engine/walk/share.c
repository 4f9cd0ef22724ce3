/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a walker gives pending directories to idle lanes, and to idle hosts: from the frame closest
 * to the root that has some, because those subtrees are the largest. The frames down to that one
 * become nodes. */
#include <errno.h>
#include <string.h>

#include "walker-state.h"

/* Frames looked through at one attempt, names and their bytes in one task: enough for any tree that
 * people make, bounded for those that are made to hurt. After a vain attempt the next few are
 * not made, unless they are far apart. */
#define LEVELS_MOST 16
#define NAMES_MOST 4096
#define BYTES_MOST KiB(64)
#define PAUSE 16
#define PAUSE_USEC 1000

/* What a task should take at least; taking one costs some 10 µs. */
#define TASK_USEC 4000

/* How many names frame f can spare: never the one being visited, or the one to be visited next. */
static uint64_t spare(const struct frame *f)
{
	return f->pending > 0 ? f->pending - 1 : 0;
}

/* Finds the first frame from the base up that can spare something. Returns true and where it is;
 * every level up to it must be open, as it becomes a node. */
static bool find(struct walker *w, uint64_t *ret_level, uint64_t *ret_off)
{
	uint64_t off = w->base_off;

	for (uint64_t l = w->base_level; l <= w->level && l < w->base_level + LEVELS_MOST; l++) {
		struct frame f;

		if (trail_frame_read(w, off, &f) < 0 || anchors_fd(&w->anchors, l) < 0)
			return false;
		/* Each level passed becomes a node, which keeps its directory open. */
		if (atomic_load(&w->job->nodes) + (l - w->base_level) > w->job->nodes_max)
			return false;
		if (spare(&f) > 0) {
			*ret_level = l;
			*ret_off = off;
			return true;
		}
		/* A frame that is not listed to its end has more to come, and stays a frame. */
		if (!f.eof)
			return false;
		off = f.pend_hi;
	}
	return false;
}

/* Makes the level above the base the new base: its directory becomes a node. */
static int promote(struct walker *w)
{
	struct frame old, f;
	struct node *n;
	char name[256];
	uint64_t off, pin;
	int r = trail_frame_read(w, w->base_off, &old);

	if (r < 0)
		return r;
	off = old.pend_hi;
	r = trail_read(w, off, /* end= */ true, name, &pin);
	if (r < 0)
		return r;
	r = trail_frame_read(w, off, &f);
	if (r < 0)
		return r;
	/* First what may fail: the walker and its frames say the same. */
	f.base = 1;
	r = trail_frame_write(w, off, &f);
	if (r < 0)
		return r;
	n = node_new(w->node, w->anchors.v[1].fd, name, f.relists);
	if (!n) {
		f.base = 0;
		r = trail_frame_write(w, off, &f);
		return r < 0 ? r : -ENOMEM;
	}
	n->pin = pin;
	n->bytes = f.bytes;
	n->pins = w->pins;
	atomic_fetch_add(&w->job->nodes, 1);
	/* What failed in the old base frame is the old node's to know, now that its frame is gone.
	 */
	if (old.failed)
		atomic_store(&w->node->failed, true);
	if (old.shared)
		atomic_store(&w->node->shared, true);
	w->node = n;
	w->base_off = off;
	w->base_level++;
	memmove(&w->anchors.v[0], &w->anchors.v[1], --w->anchors.n * sizeof(w->anchors.v[0]));
	w->anchors.v[0].borrowed = true;
	return 0;
}

/* Moves up to `names` names from the front of the frame's pending ones into a new task. */
static struct task *cut_task(struct walker *w, struct frame *f, uint64_t names)
{
	size_t room = MIN(names * TASK_RECORD, BYTES_MOST);
	struct task *t = malloc(sizeof(*t) + room);
	uint64_t pin;

	if (!t)
		return NULL;
	*t = (struct task){ 0 };
	while (t->n_names < names && t->len + TASK_RECORD <= room) {
		char *at = t->names + t->len;
		char *name = at + sizeof(pin);

		if (trail_read(w, f->pend_lo, /* end= */ false, name, &pin) < 0)
			break;
		memcpy(at, &pin, sizeof(pin));
		f->pend_lo += trail_record(strlen(name));
		f->pending--;
		t->len += sizeof(pin) + strlen(name) + 1;
		t->n_names++;
	}
	if (t->n_names == 0) {
		free(t);
		return NULL;
	}
	t->node = node_ref(w->node);
	t->pins = w->pins;
	struct task *fitted = realloc(t, sizeof(*t) + t->len);
	return fitted ? fitted : t;
}

void share_in_order(struct walker *w)
{
	char name[256];
	struct task *mine, *first;
	uint64_t pin;
	int r;

	if (!w->job->profile.dirs_as_listed || w->level != w->base_level || w->cur.pending == 0 ||
	    w->relists > 0 || tasks_queued(w->job->tasks) == 0)
		return;
	mine = trail_next(w, name, &pin) < 0 ? NULL : task_of_one(w->node, w->pins, pin, name);
	if (!mine)
		return;
	first = tasks_exchange(w->job->tasks, mine);
	if (!first) {
		free(mine);
		return;
	}
	/* Each task holds a reference to the node; the one that came back hands its own on. */
	trail_drop_next(w);
	memcpy(&pin, first->names, sizeof(pin));
	r = trail_pend(w, first->names + sizeof(pin), pin);
	if (r < 0)
		walker_failed(w, first->names + sizeof(pin), "cannot be taken up", r);
	else
		w->cur.chosen = 1;
	free(first);
}

/* How many directories make a task: so many that taking it is nothing beside doing it. */
static uint64_t task_size(const struct walker *w, uint64_t names, unsigned tasks)
{
	uint64_t most = CLAMP((names + tasks - 1) / tasks, 1, NAMES_MOST), usec;

	/* While nothing is known, little is given away: what is gone cannot be dealt better. */
	if (w->dir_usec == 0)
		return 1;
	/* The directory before this one may be the first that had anything in it. */
	usec = MAX(w->dir_usec, now_usec() - w->entered_usec);
	return CLAMP(TASK_USEC / usec, 1, most);
}

/* Was an attempt vain just now? */
static bool pausing(struct walker *w)
{
	/* Behind a server an attempt is nothing beside a step. A lane that found one directory in
	 * the root and then two in that would empty the first with a thousand round trips before
	 * another lane saw the second. */
	if (w->share_pause == 0 || w->job->profile.server)
		return false;
	w->share_pause--;
	return now_usec() < w->share_paused_usec + PAUSE_USEC;
}

/* Is there a unit in the frame at that offset? */
static bool is_worth_giving(struct walker *w, uint64_t level, uint64_t off)
{
	struct frame f;

	return trail_frame_read(w, off, &f) >= 0 && give_size(w, level, &f, spare(&f)) > 0;
}

void share(struct walker *w)
{
	uint64_t level, off = 0, names, each;
	unsigned wanted = tasks_wanted(w->job->tasks);
	bool gives = give_wanted(w);
	struct frame f;

	if ((wanted == 0 && !gives) || pausing(w))
		return;
	if (!find(w, &level, &off) || (wanted == 0 && !is_worth_giving(w, level, off))) {
		w->share_pause = PAUSE;
		w->share_paused_usec = now_usec();
		return;
	}
	while (w->base_level < level)
		if (promote(w) < 0)
			return;
	if (trail_frame_read(w, off, &f) < 0)
		return;
	names = spare(&f);
	each = wanted > 0 ? task_size(w, names, wanted) : 0;
	for (unsigned i = 0; i < wanted && names > 0; i++) {
		struct task *t = cut_task(w, &f, MIN(each, names));

		if (!t)
			break;
		names -= t->n_names;
		tasks_add(w->job->tasks, t);
	}
	if (gives && names > 0)
		give_names(w, &f, names);
	(void)trail_frame_write(w, off, &f);
}
