/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a walker gives pending directories to other hosts, after lanes of its own have what they
 * want: as share.c does to lanes, but in larger pieces. What is given is named so that it can be
 * found on another host: by its way from the group's directory, and by identities. The directory
 * that it lies in is shared from then on, and stays, with all above it. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/debug.h"
#include "engine/core/slice.h"
#include "engine/guard/roots.h"
#include "identities.h"
#include "walker-state.h"

/* A directory of which so much has been read at a time is worth dividing, into slices that have so
 * many of that. Behind a server a millisecond away each name is one. */
#define SLICED_NAMES 1000
#define SLICED_NAMES_SERVER 500
#define SLICE_NAMES 250

/* What a unit should take here, with all lanes: much longer than what claiming it takes another
 * host (some 20 ms), and short enough that hosts end together. */
#define UNIT_USEC (250 * USEC_PER_MSEC)
/* And so many names for each lane, if one takes longer than that: with one or two each, all lanes
 * would wait for the longest. */
#define UNIT_NAMES_LANE 4
/* Below this it is done sooner here. */
#define UNIT_LEAST_USEC (20 * USEC_PER_MSEC)

bool give_wanted(const struct walker *w)
{
	if (job_demand(w->job) == 0 || job_cancelled(w->job))
		return false;
	/* Of a unit nothing before all lanes have work: its giver may have more, and be about to
	 * give that to the next host, which would get half of this unit in place of its share. */
	return !w->job->is_unit ||
	       atomic_load_explicit(&w->job->tasks->idle, memory_order_relaxed) == 0;
}

/* What one of the frame's names may take, at least: as much as any directory does, and, if one of
 * them is being visited, as that has taken so far. 0: nothing is known. */
static uint64_t name_usec(struct walker *w, uint64_t level, const struct frame *f)
{
	uint64_t usec =
		w->entered_usec ? MAX(w->dir_usec, now_usec() - w->entered_usec) : w->dir_usec;
	struct frame visited;
	struct timespec now;
	int64_t nsec;

	if (level == w->level || trail_frame_read(w, f->pend_hi, &visited) < 0 ||
	    visited.began_nsec == 0)
		return usec;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	nsec = now.tv_sec * 1000000000LL + now.tv_nsec - visited.began_nsec;
	return MAX(usec, (uint64_t)MAX(nsec, 0LL) / 1000);
}

size_t give_size(struct walker *w, uint64_t level, const struct frame *f, uint64_t names)
{
	uint64_t usec = name_usec(w, level, f), takers = job_demand(w->job) + 1UL;
	unsigned own = tasks_setting(w->job->tasks).lanes,
		 idle = atomic_load_explicit(&w->job->tasks->idle, memory_order_relaxed);
	/* Behind a server each unit begins with dozens of round trips: its host gets all of its
	 * share at once, and gives away what others could do of it at the end. */
	uint64_t n = w->job->profile.server
			     ? ENGINE_UNIT_NAMES
			     : own * MAX(UNIT_USEC / MAX(usec, 1UL), (uint64_t)UNIT_NAMES_LANE);
	/* What lanes have, or take next, is this host's part already: with 64 of them and 400
	 * directories for three hosts it had more than half of all, and ended last. */
	uint64_t all = names + own - MIN(own, idle) + tasks_queued(w->job->tasks);

	/* One part of what there is stays here. */
	n = CLAMP(n, 1UL,
		  MIN(MIN((uint64_t)ENGINE_UNIT_NAMES, names), (all + takers - 1) / takers));
	return names > 0 && n * usec >= UNIT_LEAST_USEC ? n : 0;
}

/* Puts a component in front of a path that ends with buf. Returns where it begins now; NULL if
 * there is no room. */
static char *way_prepend(const char *buf, char *at, const char *name)
{
	size_t len = strlen(name), slash = *at != '\0';

	if ((size_t)(at - buf) < len + slash)
		return NULL;
	if (slash)
		*--at = '/';
	return memcpy(at - len, name, len);
}

/* The way to the directory whose frame stands at that offset. NULL: it is too long, or not known.
 */
static const char *way(struct walker *w, uint64_t off, char buf[ENGINE_UNIT_PATH])
{
	char *at = buf + ENGINE_UNIT_PATH - 1, name[256];
	const struct node *n = w->node;
	struct frame f;
	uint64_t pin;

	*at = '\0';
	for (; at && off != w->base_off; off = f.prev) {
		if (trail_read(w, off, /* end= */ true, name, &pin) < 0 ||
		    trail_frame_read(w, off, &f) < 0)
			return NULL;
		at = way_prepend(buf, at, name);
	}
	for (; at && n->parent; n = n->parent)
		at = way_prepend(buf, at, n->name);
	return at && n->group->within ? way_prepend(buf, at, n->group->within) : at;
}

/* Names from the front of a frame. */
struct cut {
	struct engine_unit_name v[ENGINE_UNIT_NAMES];
	int errors[ENGINE_UNIT_NAMES];
	char text[ENGINE_UNIT_BYTES];
	size_t n, len;
	uint64_t end; /* where they end in the frame */
};

/* Reads up to `most` names, and what they are: a root must still be what was accepted; of others
 * what is there is given. Roots and others are not in one unit. */
static void names_read(struct walker *w, const struct frame *f, size_t most, struct cut *ret)
{
	uint64_t at = f->pend_lo, pin;
	bool roots = false;

	ret->n = ret->len = 0;
	assert(most <= ENGINE_UNIT_NAMES);
	while (ret->n < most && ret->len + 256 <= sizeof(ret->text)) {
		char *name = ret->text + ret->len;

		if (trail_read(w, at, /* end= */ false, name, &pin) < 0)
			break;
		if (ret->n == 0)
			roots = w->pins && pin > 0;
		else if (roots != (w->pins && pin > 0))
			break;
		if (roots)
			ret->v[ret->n].id = w->pins[pin - 1];
		ret->errors[ret->n] = 0;
		ret->v[ret->n++].name = name;
		ret->len += strlen(name) + 1;
		at += trail_record(strlen(name));
	}
	if (!roots)
		identities_at(w->node->fd, ret->v, ret->errors, ret->n, &w->job->cancelled);
}

/* What is no directory any more, or cannot be asked, ends them: it is for this walker to find out.
 */
static void cut(struct walker *w, const struct frame *f, size_t most, const struct identity *dir,
		struct cut *ret)
{
	size_t n = 0;

	names_read(w, f, most, ret);
	ret->end = f->pend_lo;
	for (; n < ret->n; n++) {
		const struct identity *id = &ret->v[n].id;

		if (ret->errors[n] < 0 || !S_ISDIR(id->mode) || id->is_mount_root ||
		    id->mnt_id != dir->mnt_id)
			break;
		ret->end += trail_record(strlen(ret->v[n].name));
	}
	ret->n = n;
}

static bool demand_take(struct engine_job *j)
{
	unsigned n = job_demand(j);

	while (n > 0)
		if (atomic_compare_exchange_weak(&j->demand, &n, n - 1))
			return true;
	return false;
}

/* Where it is not taken, nothing more is offered until there is new demand. */
static bool give(struct walker *w, const struct engine_unit *u)
{
	struct engine_job *j = w->job;

	if (job_cancelled(j) || !demand_take(j))
		return false;
	if (!j->o.give(u, j->o.userdata)) {
		atomic_store(&j->demand, 0);
		return false;
	}
	stat_add(&j->stats.given, 1);
	return true;
}

/* Asking for identities is work, too. */
static void cut_paced(struct walker *w, const struct frame *f, size_t most, struct identity *dir,
		      struct cut *ret)
{
	struct slice slice;

	ret->n = 0;
	slice_init(&slice, w->job->pace, &w->job->cancelled, w->node->fd);
	if (slice_open(&slice) >= 0 && fd_identity(w->node->fd, "", dir) >= 0)
		cut(w, f, most, dir, ret);
	slice_close(&slice);
}

void give_names(struct walker *w, struct frame *f, uint64_t names)
{
	char buf[ENGINE_UNIT_PATH];
	struct engine_unit u = { .path = way(w, w->base_off, buf) };
	size_t each = give_size(w, w->base_level, f, names);
	struct cut *c = u.path && each > 0 ? malloc(sizeof(*c)) : NULL;

	while (c && names > 0 && job_demand(w->job) > 0) {
		cut_paced(w, f, MIN(each, names), &u.id, c);
		u.names = c->v;
		u.n_names = c->n;
		if (c->n == 0 || !give(w, &u))
			break;
		debug_log("give: %zu of %" PRIu64 " directories in %s to another host", c->n, names,
			  *u.path ? u.path : "the job's own");
		atomic_store(&w->node->shared, true);
		f->pend_lo = c->end;
		f->pending -= c->n;
		names -= c->n;
	}
	free(c);
}

/* So many names that it is worth dividing them. */
static size_t sliced_names(const struct walker *w)
{
	return w->job->profile.server ? SLICED_NAMES_SERVER : SLICED_NAMES;
}

bool give_slices(struct walker *w, int fd, size_t names)
{
	unsigned demand = job_demand(w->job);
	size_t slices = MIN(demand + (size_t)1, names / SLICE_NAMES);
	struct name_slice *own = &w->cur.slice;
	unsigned gone = own->gone;
	char buf[ENGINE_UNIT_PATH];
	struct engine_unit u;

	if (demand == 0 || names < sliced_names(w))
		return false;
	u = (struct engine_unit){ .path = way(w, w->cur_off, buf) };
	if (!u.path || fd_identity(fd, "", &u.id) < 0)
		return false;
	/* Parts that no host has taken before are given first. */
	if (own->gone + 1U >= own->parts) {
		if (name_slice_cut(own, (unsigned)slices) < 0)
			return false;
		gone = 0;
	}
	while (own->gone + 1U < own->parts) {
		u.slice = name_slice_next(own);
		if (!give(w, &u))
			break;
		own->gone++;
	}
	debug_log("give: %u of %u slices of %s to other hosts", own->gone - gone, own->parts,
		  u.path);
	w->cur.shared = w->cur.shared || own->gone > 0;
	return own->gone > gone;
}
