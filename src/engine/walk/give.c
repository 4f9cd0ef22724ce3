/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a walker gives pending directories to other hosts, when no lane of its own is idle: as
 * share.c does to lanes, but in larger pieces. What is given is named so that it can be found on
 * another host: by its way from the group's directory, and by identities. The directory that it
 * lies in is shared from then on, and stays, with all above it. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/debug.h"
#include "base/thread.h"
#include "engine/core/slice.h"
#include "engine/guard/roots.h"
#include "walker-state.h"

/* A directory of which so much has been read at a time is worth dividing, into slices that have so
 * many of that. Behind a server a millisecond away each name is one. */
#define SLICED_NAMES 1000
#define SLICE_NAMES 250

/* What a unit should take here, with all lanes: much longer than what claiming it takes another
 * host (some 20 ms), and short enough that hosts end together. */
#define UNIT_USEC (250 * USEC_PER_MSEC)
/* And so many names for each lane, if one takes longer than that. A lane has a directory to itself
 * where a server has one entry after the other removed in it, so that all are waited for by the
 * longest; and before the first, each name is looked at. */
#define UNIT_NAMES_LANE 4
/* The other host has so many lanes at least where it waits for a server. Those of this run are
 * fewer before more were tried. */
#define UNIT_LANES 8U
/* So many of them are looked at at a time. */
#define LOOKS 8
/* Below this it is done sooner here. */
#define UNIT_LEAST_USEC (20 * USEC_PER_MSEC)

bool give_wanted(const struct walker *w)
{
	return job_demand(w->job) > 0 && !job_cancelled(w->job) &&
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
	uint64_t n = MAX(tasks_setting(w->job->tasks).lanes, UNIT_LANES) *
		     MAX(UNIT_USEC / MAX(usec, 1UL), (uint64_t)UNIT_NAMES_LANE);

	/* One part of what there is stays here. */
	n = CLAMP(n, 1UL, MIN((uint64_t)ENGINE_UNIT_NAMES, (names + takers - 1) / takers));
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
	char text[ENGINE_UNIT_BYTES];
	uint64_t pins[ENGINE_UNIT_NAMES];
	bool good[ENGINE_UNIT_NAMES]; /* it may be given, and its identity is known */
	size_t n;
	uint64_t end; /* where they end in the frame */
};

/* A root must still be what was accepted; of others is given what is there. */
static bool name_identify(const struct walker *w, const char *name, uint64_t pin,
			  const struct identity *dir, struct identity *ret)
{
	if (w->pins && pin > 0)
		*ret = w->pins[pin - 1];
	else if (fd_identity(w->node->fd, name, ret) < 0)
		return false;
	return S_ISDIR(ret->mode) && !ret->is_mount_root && ret->mnt_id == dir->mnt_id;
}

struct identifying {
	const struct walker *w;
	const struct identity *dir;
	struct cut *cut;
};

static void identify(size_t i, void *userdata)
{
	const struct identifying *of = userdata;
	struct cut *c = of->cut;

	c->good[i] = name_identify(of->w, c->v[i].name, c->pins[i], of->dir, &c->v[i].id);
}

/* Reads up to `most` names. What is no directory any more, or cannot be asked, ends them: it is for
 * this walker to find out. */
static void cut(struct walker *w, const struct frame *f, size_t most, const struct identity *dir,
		struct cut *ret)
{
	size_t n = 0, len = 0;

	assert(most <= ENGINE_UNIT_NAMES);
	for (uint64_t at = f->pend_lo; n < most && len + 256 <= sizeof(ret->text); n++) {
		char *name = ret->text + len;

		if (trail_read(w, at, /* end= */ false, name, &ret->pins[n]) < 0)
			break;
		ret->v[n].name = name;
		len += strlen(name) + 1;
		at += trail_record(strlen(name));
	}
	/* Other hosts wait for it: behind a server each look is a round trip. */
	thread_each(n, w->job->profile.server ? LOOKS : 1, identify,
		    &(struct identifying){ w, dir, ret });
	ret->end = f->pend_lo;
	for (ret->n = 0; ret->n < n && ret->good[ret->n]; ret->n++)
		ret->end += trail_record(strlen(ret->v[ret->n].name));
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

bool give_slices(struct walker *w, int fd, size_t names)
{
	unsigned demand = job_demand(w->job);
	size_t slices = MIN(demand + (size_t)1, names / SLICE_NAMES);
	struct name_slice *own = &w->cur.slice;
	char buf[ENGINE_UNIT_PATH];
	struct engine_unit u;

	/* Subdirectories that were seen in it are this walker's, and go by themselves. */
	if (demand == 0 || names < SLICED_NAMES || w->cur.pending > 0)
		return false;
	u = (struct engine_unit){ .path = way(w, w->cur_off, buf) };
	if (!u.path || fd_identity(fd, "", &u.id) < 0 || name_slice_cut(own, (unsigned)slices) < 0)
		return false;
	while (own->gone + 1U < own->parts) {
		u.slice = name_slice_next(own);
		if (!give(w, &u))
			break;
		own->gone++;
	}
	debug_log("give: %u of %u slices of %s to other hosts", own->gone, own->parts, u.path);
	w->cur.shared = w->cur.shared || own->gone > 0;
	return own->gone > 0;
}
