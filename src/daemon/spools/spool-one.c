/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spool-state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "base/array.h"

/* What is watched of the spool, of each directory above it, and of the last one while the spool, or
 * the next directory on the way, is not there or must not be served. */
#define WATCH_ABOVE (IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR)
#define WATCH_SPOOL (WATCH_ABOVE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB)
#define WATCH_MISSING (WATCH_ABOVE | IN_CREATE | IN_MOVED_TO)

void spool_tell(const struct spool *s, const struct spool_entry *e, const char *text)
{
	const struct spools_options *o = &s->common->options;

	o->tell(s->path, e ? e->stamp.uid : UID_NONE, e ? e->name : NULL, text, o->userdata);
}

int64_t spool_clock_usec(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * (int64_t)USEC_PER_SEC + ts.tv_nsec / 1000;
}

/* Begins anew in a minute. */
static void spool_pause(struct spool *s)
{
	s->pausing = true;
	s->list = true;
	(void)spool_timer_set(s, spool_clock_usec(CLOCK_MONOTONIC) + LATER_USEC);
}

/* ---- where it is --------------------------------------------------------------------------- */

static void detach(struct spool *s)
{
	for (size_t i = 0; i < s->n_steps; i++)
		sd_event_source_disable_unref(s->watches[i]);
	free(s->watches);
	free(s->steps);
	s->watches = NULL;
	s->steps = NULL;
	s->n_steps = 0;
	s->complete = false;
}

/* Something in the spool. */
static void entry_touched(struct spool *s, const char *name)
{
	struct spool_entry *e = spool_name_is_ours(name) ? NULL : spool_entry_get(s, name);

	if (e)
		spool_entry_set_touched(s, e, true);
	else
		s->more = s->more || !spool_name_is_ours(name);
}

/* Is this the name of the directory that is missed? */
static bool is_next(const struct spool *s, const char *name)
{
	const char *p = s->path;
	size_t len;

	for (size_t i = 1; i < s->n_steps; i++) {
		p += strspn(p, "/");
		p += strcspn(p, "/");
	}
	p += strspn(p, "/");
	len = strcspn(p, "/");
	return strlen(name) == len && strncmp(p, name, len) == 0;
}

static int watched(sd_event_source *source, const struct inotify_event *e, void *userdata)
{
	struct spool *s = userdata;
	bool last = s->n_steps > 0 && source == s->watches[s->n_steps - 1];

	if (e->mask & IN_Q_OVERFLOW)
		s->list = true;
	if (last && s->complete && e->len > 0)
		entry_touched(s, e->name);
	/* Of names, only the one that is missed matters, unless whatever it is may put things
	 * right.
	 */
	if (e->len == 0 || s->attached_unserved || (last && !s->complete && is_next(s, e->name)))
		s->check = true;
	/* The watch is gone, even if the directory should come back. */
	if (e->mask & (IN_IGNORED | IN_UNMOUNT))
		detach(s);
	spool_kick(s);
	return 0;
}

static bool step_equal(const struct spool_step *a, const struct spool_step *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->mnt_id == b->mnt_id;
}

static bool is_attached(const struct spool *s, const struct spool_round *r)
{
	bool is = s->n_steps == r->n_steps && s->complete == r->complete && s->n_steps > 0 &&
		  s->attached_unserved == (r->error < 0);

	for (size_t i = 0; is && i < s->n_steps; i++)
		is = step_equal(&s->steps[i], &r->steps[i]);
	return is;
}

static int attach_step(struct spool *s, const struct spool_round *r, size_t i)
{
	bool last = i + 1 == r->n_steps;
	uint32_t mask = !last ? WATCH_ABOVE : r->complete ? WATCH_SPOOL : WATCH_MISSING;
	int k;

	/* What keeps it from being served may be put right by chmod. */
	if (r->error < 0)
		mask |= IN_ATTRIB;
	k = sd_event_add_inotify_fd(s->common->event, &s->watches[i], r->steps[i].fd, mask, watched,
				    s);
	if (k < 0)
		return k;
	s->steps[i] = r->steps[i];
	s->steps[i].fd = -1;
	s->n_steps = i + 1;
	return sd_event_source_set_description(s->watches[i], "spool");
}

/* Watches what a round has found. It looked before there were these watches: another has to. */
static int attach(struct spool *s, const struct spool_round *r)
{
	int k = 0;

	detach(s);
	s->steps = calloc(r->n_steps, sizeof(*s->steps));
	s->watches = calloc(r->n_steps, sizeof(sd_event_source *));
	if (!s->steps || !s->watches)
		k = -ENOMEM;
	for (size_t i = 0; i < r->n_steps && k >= 0; i++)
		k = attach_step(s, r, i);
	s->complete = r->complete;
	s->attached_unserved = r->error < 0;
	s->list = s->check = true;
	return k < 0 ? k : 0;
}

static void set_state(struct spool *s, enum spool_state state, const char *why)
{
	bool is_news = state == SPOOL_UNSERVED && (s->state != state || strcmp(s->why, why) != 0);

	s->state = state;
	(void)snprintf(s->why, sizeof(s->why), "%s", why);
	if (is_news)
		spool_tell(s, NULL, why);
}

/* ---- what is in it ------------------------------------------------------------------------- */

static bool same_stamp(const struct spool_stamp *a, const struct spool_stamp *b)
{
	return identity_equal(&a->id, &b->id) && a->id.mode == b->id.mode && a->uid == b->uid &&
	       a->ctime_nsec == b->ctime_nsec && a->mtime_nsec == b->mtime_nsec;
}

/* Is it another file, or has it changed in a way that matters in its state? */
static bool is_changed(const struct spool_entry *e, const struct spool_seen *seen,
		       enum returned_why returned)
{
	/* It may have gone and come back since it was seen last. */
	if (e->state == SPOOL_NEW || (e->state == SPOOL_TAKEN && returned != RETURNED_NOT))
		return true;
	/* What is being deleted in place changes all the time. */
	if (e->state == SPOOL_OFFERED || e->state == SPOOL_TAKEN)
		return !identity_equal(&e->stamp.id, &seen->stamp.id);
	return !same_stamp(&e->stamp, &seen->stamp);
}

static void entry_seen(struct spool *s, const struct spool_round *r, const struct spool_seen *seen)
{
	static const enum spool_entry_state states[] = { [RETURNED_NOT] = SPOOL_WAITING,
							 [RETURNED_RESTORED] = SPOOL_RETURNED,
							 [RETURNED_KEPT] = SPOOL_REFUSED };
	struct spool_entry *e = spool_entry_find(s, seen->name);
	enum returned_why returned;
	int64_t age;

	if (seen->error == -ENOENT) {
		if (e)
			spool_entry_forget(s, e);
		return;
	}
	if (!e)
		e = spool_entry_get(s, seen->name);
	if (!e) {
		s->more = true;
		return;
	}
	e->round = r->number;
	if (seen->error < 0) {
		spool_entry_later(s, e);
		return;
	}
	returned = spool_returned_check(&s->common->returned, &seen->stamp);
	if (is_changed(e, seen, returned)) {
		/* Its times are believed as far as they say that it is older than what we know; a
		 * clock that was set back makes it no younger than now. */
		age = spool_clock_usec(CLOCK_REALTIME) - seen->stamp.ctime_nsec / 1000;
		e->since_usec = spool_clock_usec(CLOCK_MONOTONIC) - MAX(age, 0);
		e->state = states[returned];
		e->later = false;
		e->part = 0;
		e->stamp = seen->stamp;
	}
	e->submitter = seen->submitter;
	if (!seen->why || e->state != SPOOL_WAITING)
		return;
	e->state = SPOOL_REFUSED;
	spool_tell(s, e, seen->why);
}

static void release_refused(struct spool *s)
{
	struct spool_entry *e;

	LIST_FOREACH(e, &s->entries, link)
		if (e->state == SPOOL_REFUSED)
			e->state = SPOOL_WAITING;
}

static void forget_all(struct spool *s)
{
	while (LIST_FIRST(&s->entries))
		spool_entry_forget(s, LIST_FIRST(&s->entries));
}

/* ---- rounds -------------------------------------------------------------------------------- */

static int timer_fired(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct spool *s = userdata;

	(void)source;
	(void)usec;
	s->pausing = false;
	spool_kick(s);
	return 0;
}

int spool_timer_set(struct spool *s, int64_t usec)
{
	int k;

	if (usec == INT64_MAX)
		return s->timer ? sd_event_source_set_enabled(s->timer, SD_EVENT_OFF) : 0;
	if (!s->timer)
		return sd_event_add_time(s->common->event, &s->timer, CLOCK_MONOTONIC,
					 (uint64_t)MAX(usec, 0), 10 * USEC_PER_MSEC, timer_fired,
					 s);
	k = sd_event_source_set_time(s->timer, (uint64_t)MAX(usec, 0));
	return k < 0 ? k : sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
}

/* Gives a round the names that it is to check. */
static int names_give(struct spool *s, struct spool_round *r)
{
	struct spool_entry *e;
	int k = 0;

	LIST_FOREACH(e, &s->entries, link) {
		/* What came last is in front. */
		if (s->n_touched == 0)
			break;
		if (e->touched && !r->list && k >= 0)
			k = strings_add(&r->names, &r->n_names, strdup(e->name));
		spool_entry_set_touched(s, e, false);
	}
	return k;
}

static void round_process(struct spool *s, struct spool_round *r)
{
	struct spool_entry *e, *next;
	int k = 0;

	if (s->authority.rule != r->authority.rule || s->authority.uid != r->authority.uid)
		release_refused(s);
	s->authority = r->authority;
	set_state(s, SPOOL_SERVED, "");
	if (r->list)
		s->more = r->more;
	for (size_t i = 0; i < r->n_seen; i++)
		entry_seen(s, r, &r->seen[i]);
	/* What a list of everything did not have is forgotten. */
	for (e = r->list && !r->more ? LIST_FIRST(&s->entries) : NULL; e; e = next) {
		next = LIST_NEXT(e, link);
		if (e->round != r->number && !e->touched)
			spool_entry_forget(s, e);
	}
	if (r->deliver)
		k = spool_deliver(s, r);
	/* Where there is room again, there may be what was not remembered. */
	if (s->more && s->n_entries < SPOOL_ENTRIES_MOST / 2)
		s->list = true;
	if (k < 0) {
		spool_tell(s, NULL, "cannot be served just now: out of memory");
		spool_pause(s);
	}
}

static void round_ended(struct spool_round *r, void *userdata)
{
	struct spool *s = userdata;
	int k = 0;

	s->round = NULL;
	if (!is_attached(s, r)) {
		/* What is known is of the directory before. */
		if (!s->complete || !r->complete ||
		    !step_equal(&s->steps[s->n_steps - 1], &r->steps[r->n_steps - 1]))
			forget_all(s);
		k = attach(s, r);
	} else if (r->error < 0) {
		set_state(s, r->error == -ENOENT ? SPOOL_ABSENT : SPOOL_UNSERVED, r->why);
		/* No event will tell when it is over. */
		if (r->error != -ENOENT && r->error != -ENOTDIR && r->error != -EPERM)
			spool_pause(s);
	} else {
		round_process(s, r);
	}
	if (k < 0) {
		detach(s);
		spool_pause(s);
		set_state(s, SPOOL_UNSERVED,
			  k == -ENOSPC ? "cannot be watched: the limit fs.inotify.max_user_watches "
					 "is reached"
				       : "cannot be watched");
	}
	spool_round_free(r);
	spool_kick(s);
}

static int round_begin(struct spool *s)
{
	struct spool_round *r = spool_round_new(s->path, s->common->protect);
	int k;

	if (!r)
		return -ENOMEM;
	r->list = s->list;
	r->check = s->check;
	r->deliver = s->deliver;
	r->number = ++s->last_round;
	s->check = s->list = s->deliver = false;
	k = names_give(s, r);
	if (k >= 0)
		k = spool_round_start(r, s->common->event, round_ended, s);
	if (k < 0) {
		spool_round_free(r);
		return k;
	}
	s->round = r;
	return 0;
}

void spool_kick(struct spool *s)
{
	int k = 0;

	if (s->round || s->pausing)
		return;
	if (!s->check && !s->list && s->n_touched == 0)
		k = spool_prepare(s);
	if (k >= 0 && (s->check || s->list || s->n_touched > 0))
		k = round_begin(s);
	if (k < 0) {
		spool_tell(s, NULL,
			   "cannot be looked at just now: out of memory or threads; trying "
			   "again in a minute");
		spool_pause(s);
	}
}

/* ---- from outside -------------------------------------------------------------------------- */

int spool_new(struct spool **ret, struct spool_common *common, const char *path)
{
	struct spool *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->common = common;
	s->path = strdup(path);
	if (!s->path || asprintf(&s->origin, "spool:%s", path) < 0) {
		s->origin = NULL;
		spool_free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

struct spool *spool_free(struct spool *s)
{
	if (!s)
		return NULL;
	spool_round_free(s->round);
	detach(s);
	sd_event_source_disable_unref(s->timer);
	forget_all(s);
	free(s->origin);
	free(s->path);
	free(s);
	return NULL;
}

void spool_configure(struct spool *s, uint64_t settle_usec, uint64_t undo_usec)
{
	s->settle_usec = settle_usec;
	s->undo_usec = undo_usec;
	/* What is protected may have changed as well. */
	release_refused(s);
	s->list = true;
	spool_kick(s);
}

void spool_retry(struct spool *s)
{
	int64_t due = spool_clock_usec(CLOCK_MONOTONIC) - (int64_t)s->settle_usec;
	struct spool_entry *e;

	LIST_FOREACH(e, &s->entries, link) {
		if (e->state == SPOOL_WAITING && e->later)
			e->since_usec = MIN(e->since_usec, due);
		e->later = false;
	}
	s->pausing = false;
	s->check = true;
	spool_kick(s);
}
