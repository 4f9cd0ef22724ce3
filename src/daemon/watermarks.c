/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "watermarks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "config/config.h"
#include "daemon/context/log.h"
#include "daemon/jobs/jobs.h"
#include "daemon/policies/policy-last.h"
#include "daemon/policies/policy-process.h"
#include "policy/policy.h"
#include "policy/urgency.h"
#include "base/array.h"
#include "base/escape.h"
#include "base/fd.h"

#define RETRY_USEC (1 * USEC_PER_SEC)
#define RETRY_MOST_USEC (600 * USEC_PER_SEC)
/* With max-size: how long after the last run at the latest; after what part of it was written to
 * the filesystem, but not for less than so much; and how often that is looked at, at least. */
#define SIZE_USEC (900 * USEC_PER_SEC)
#define SIZE_PARTS 100
#define SIZE_PART_LEAST MiB(1)
#define SIZE_LOOK_MOST (15 * USEC_PER_SEC)

/* What there is less and less of on a filesystem. */
struct supply {
	struct policy_space below; /* all zero: it may get short */
	uint64_t most;             /* that is taken in a second */
	uint64_t free, rate;       /* at the last check; and what was taken a second since */
	uint64_t began, highest;   /* free when the last run began; the most that was since */
};

struct watermark {
	LIST_ENTRY(watermark) link;
	struct watermarks *all;
	char *name;
	char **paths; /* NULL-terminated; all on one filesystem */
	struct supply space, inodes;
	uint64_t max_size_bytes; /* 0: without max-size */
	bool is_old;             /* not configured any more: goes when its process has */
	bool is_short, may_hang, is_absent, is_untold;
	dev_t dev;                      /* its filesystem's, where something may get short; or 0 */
	uint64_t checked_usec;          /* when what is free was checked last */
	struct policy_process *process; /* while it runs */
	bool has_failed, has_more;      /* the last run; max-delete kept some of what it wanted */
	bool has_stalled;               /* the last runs freed no space: no other until it has */
	struct policy_sum handed;       /* what it was to free */
	uint64_t retry_usec, wait_usec; /* not before; and how long after the next */
	uint64_t size_usec;             /* when it is due for max-size */
};

struct watermarks {
	struct jobs *jobs;
	struct context *context;
	LIST_HEAD(watermark_list, watermark) list;
	sd_event_source *timer;
};

static void watermark_free(struct watermark *w)
{
	LIST_REMOVE(w, link);
	policy_process_free(w->process);
	for (char **path = w->paths; path && *path; path++)
		free(*path);
	free(w->paths);
	free(w->name);
	free(w);
}

static int watermark_new(struct watermarks *all, const struct config_policy *p)
{
	struct watermark *w = calloc(1, sizeof(*w));
	char *one[2];
	size_t n = 0;
	int r = 0;

	if (!w)
		return -ENOMEM;
	*w = (struct watermark){
		.all = all,
		.name = strdup(p->name),
		.space = { p->rules.min_free_below, URGENCY_BYTES_MOST, 0, 0, 0, 0 },
		.inodes = { p->rules.min_inodes_below, URGENCY_INODES_MOST, 0, 0, 0, 0 },
		.max_size_bytes = policy_max_size(&p->rules),
		.wait_usec = RETRY_USEC
	};
	LIST_INSERT_HEAD(&all->list, w, link);
	for (char *const *path = policy_paths(&p->rules, one); *path && r >= 0; path++)
		r = strings_add(&w->paths, &n, strdup(*path));
	if (w->name && r >= 0)
		return 0;
	watermark_free(w);
	return -ENOMEM;
}

/* ---- running ----------------------------------------------------------------------------------
 */

static void note_result(struct watermark *w, bool went_well)
{
	struct policy_last last = { 0 };

	policy_last_update(&last, w->all->context->o.state_dir, w->name);
	w->has_failed = !went_well;
	w->handed = last.r.handed;
	w->has_more = last.r.handed.n > 0 && last.r.excess.n > 0;
	if (last.r.stalls >= STALLS_MOST && !w->has_stalled)
		log_line(LOG_ERR,
			 "Policy %s stops, as its deletions free no space, until more is free or "
			 "the configuration is read again: see reclaimctl policy list",
			 w->name);
	w->has_stalled = last.r.stalls >= STALLS_MOST;
}

static void on_ended(bool went_well, const char *output, size_t len, void *userdata)
{
	struct watermark *w = userdata;

	(void)output;
	(void)len;
	w->process = policy_process_free(w->process);
	if (w->is_old) {
		watermark_free(w);
		return;
	}
	if (!went_well)
		log_line(LOG_ERR,
			 "Policy %s could not run, or not do all it was to do: see reclaimctl "
			 "policy list",
			 w->name);
	note_result(w, went_well);
	(void)sd_event_source_set_time_relative(w->all->timer, 0);
}

static void run_policy(struct watermark *w)
{
	int r = policy_process_new(&w->process, w->all->context, w->name, /* run= */ true, on_ended,
				   w);

	if (r < 0)
		log_line(LOG_ERR, "Policy %s cannot be run: %s", w->name, strerror(-r));
}

/* Is this an unfinished job of the policy? */
static bool is_of(const struct job *j, const struct watermark *w)
{
	const char *name = policy_of_origin(j->r.origin);

	return !job_state_finished(j->r.state) && name && strcmp(name, w->name) == 0;
}

static bool has_job(const struct watermark *w)
{
	struct job *j;

	TAILQ_FOREACH(j, &w->all->jobs->table.awake, awake)
		if (is_of(j, w))
			return true;
	return false;
}

/* Is space on its way that a policy has made? Its own jobs, whatever holds them up; and, if it is
 * about free space, those of others on the same filesystem that are about to free it. */
static bool frees_space(const struct watermark *w, const struct job *j)
{
	if (is_of(j, w))
		return true;
	return !job_state_finished(j->r.state) && policy_of_origin(j->r.origin) && w->dev &&
	       j->area && j->area->dev == w->dev && j->r.state != JOB_HELD &&
	       j->r.state != JOB_PAUSED;
}

static bool space_is_coming(const struct watermark *w)
{
	const struct watermark *other;
	struct job *j;

	TAILQ_FOREACH(j, &w->all->jobs->table.awake, awake)
		if (frees_space(w, j))
			return true;
	/* One that runs and has its job already only waits for that. */
	LIST_FOREACH(other, &w->all->list, link)
		if (other->process && w->dev && other->dev == w->dev && !has_job(other))
			return true;
	return false;
}

/* ---- checking ---------------------------------------------------------------------------------
 */

static bool has_marks_of_free(const struct watermark *w)
{
	return policy_space_is_set(&w->space.below) || policy_space_is_set(&w->inodes.below);
}

static int space_ask(const struct mount *mount, const char *path, struct statvfs *ret)
{
	_cleanup_close_ int fd = mount_open(mount, path);

	if (fd < 0)
		return fd;
	return fstatvfs(fd, ret) < 0 ? -errno : 0;
}

/* A run fails until all of its directories are there. */
static bool any_is_absent(char *const *paths, const struct mounts *mounts)
{
	for (char *const *path = paths; *path; path++) {
		_cleanup_close_ int fd = -1;

		if (mounts_may_hang(mounts, *path))
			continue;
		fd = mount_open(mounts_by_path(mounts, *path), *path);
		if (fd == -ENOENT)
			return true;
	}
	return false;
}

/* Where asking may hang, the loop does not ask. A directory that is not there yet may be made and
 * filled at any moment: the filesystem that it will be on is asked in its stead. */
static bool space_query(struct watermark *w, struct statvfs *ret)
{
	const struct mounts *mounts = context_mounts(w->all->context);
	const char *path = w->paths[0];
	const struct mount *mount = mounts ? mounts_by_path(mounts, path) : NULL;
	bool hangs = !mount || mounts_may_hang(mounts, path);
	int r;

	if (hangs && !w->may_hang && has_marks_of_free(w))
		log_line(LOG_WARNING,
			 "Policy %s: free space is not watched on this kind of filesystem, as "
			 "asking for it may take forever: give it a schedule",
			 w->name);
	w->may_hang = hangs;
	w->is_absent = false;
	w->dev = 0;
	if (hangs)
		return false;
	r = space_ask(mount, path, ret);
	w->is_absent = r == -ENOENT || any_is_absent(w->paths + 1, mounts);
	/* If it is no directory on this mount, the run will say so. */
	if (r < 0)
		r = space_ask(mount, mount->target, ret);
	if (r < 0)
		return false;
	w->dev = has_marks_of_free(w) ? mount->dev : 0;
	return true;
}

/* How fast it goes, which is not forgotten at once. */
static void rate_note(struct supply *s, uint64_t free, uint64_t passed_usec)
{
	uint64_t taken = s->free > free ? s->free - free : 0;
	double rate = passed_usec > 0 ? (double)taken / (double)passed_usec : 0;

	s->rate = MAX((uint64_t)(rate * USEC_PER_SEC), s->rate / 2);
	s->free = free;
	s->highest = MAX(s->highest, free);
}

/* Is it short? Not if it is not known how much there is in all. *next becomes less, if it is to be
 * checked again before. */
static bool supply_check(struct supply *s, struct space now, uint64_t passed_usec, uint64_t *next)
{
	rate_note(s, now.free, passed_usec);
	if (!policy_space_is_set(&s->below) || now.all == 0)
		return false;
	*next = MIN(*next, urgency_look_usec(&s->below, &now, s->rate, s->most));
	return urgency_space(&s->below, &s->below, &now, false);
}

/* Returns what is short, in words, or NULL. */
static const char *supplies_check(struct watermark *w, uint64_t now, uint64_t *next)
{
	uint64_t passed = w->checked_usec > 0 ? now - w->checked_usec : 0;
	struct space inodes, space;
	bool space_is_short, inodes_are_short;
	struct statvfs st;
	const char *untold;

	if (!space_query(w, &st))
		return NULL;
	w->checked_usec = now;
	space = (struct space){ (uint64_t)st.f_bavail * st.f_frsize,
				(uint64_t)st.f_blocks * st.f_frsize };
	inodes = (struct space){ st.f_favail, st.f_files };
	untold = policy_space_is_set(&w->space.below) && space.all == 0 ? "size, so min-free"
		 : policy_space_is_set(&w->inodes.below) && inodes.all == 0
			 ? "limit of inodes, so min-free-inodes"
			 : NULL;
	if (untold && !w->is_untold)
		log_line(LOG_WARNING, "Policy %s: its filesystem has no %s is not watched", w->name,
			 untold);
	w->is_untold = untold != NULL;
	space_is_short = supply_check(&w->space, space, passed, next);
	inodes_are_short = supply_check(&w->inodes, inodes, passed, next);
	return space_is_short     ? "less free space than min-free"
	       : inodes_are_short ? "fewer free inodes than min-free-inodes"
				  : NULL;
}

/* Free space at which so much has been written since the last run that max-size may be exceeded. */
static uint64_t size_mark(const struct watermark *w)
{
	uint64_t part = MAX(w->max_size_bytes / SIZE_PARTS, SIZE_PART_LEAST);

	return w->space.highest - MIN(part, w->space.highest);
}

/* When to look again for max-size. */
static uint64_t size_look_usec(const struct watermark *w)
{
	const struct supply *s = &w->space;
	uint64_t mark = size_mark(w), left = s->free > mark ? s->free - mark : 0;
	double half = s->rate > 0 ? (double)left / (double)s->rate / 2 * USEC_PER_SEC
				  : (double)SIZE_LOOK_MOST;

	return (uint64_t)CLAMP(half, (double)RETRY_USEC, (double)SIZE_LOOK_MOST);
}

/* Is there more of it since the last run, by half of what that was to free? */
static bool has_grown(const struct supply *s, uint64_t handed)
{
	return handed > 0 && s->highest - s->began >= (handed + 1) / 2;
}

/* Has the last run made room? Where programs write quickly, there may be as little after it as
 * before. Each entry has an inode, but for those with other names. */
static bool has_helped(const struct watermark *w)
{
	return has_grown(&w->space, w->handed.bytes) ||
	       (policy_space_is_set(&w->inodes.below) && has_grown(&w->inodes, w->handed.n));
}

/* Is there no reason to wait longer before the next run? For max-size, what was written calls for
 * one, whether the last one has failed or not. */
static bool is_calm(const struct watermark *w, bool is_short)
{
	return has_helped(w) || (!is_short && !(w->has_failed && w->max_size_bytes > 0));
}

static bool is_due_for_size(const struct watermark *w, uint64_t now)
{
	return w->max_size_bytes > 0 && (now >= w->size_usec || w->space.free < size_mark(w) ||
					 (w->has_more && (!w->has_failed || has_helped(w))));
}

/* Returns when to check again, in microseconds from now. */
static uint64_t check(struct watermark *w, uint64_t now)
{
	uint64_t next = URGENCY_LOOK_MOST;
	const char *lack = supplies_check(w, now, &next);
	bool is_short = lack != NULL, is_due;

	if (w->max_size_bytes > 0 && !w->may_hang)
		next = MIN(next, size_look_usec(w));
	is_due = is_due_for_size(w, now);
	w->is_short = w->is_short && is_short;
	if (is_calm(w, is_short)) {
		w->wait_usec = RETRY_USEC;
		w->retry_usec = MIN(w->retry_usec, now + RETRY_USEC);
	}
	if (w->process || (is_short && w->is_absent) || (w->has_stalled && !has_helped(w)))
		return next;
	if (now < w->retry_usec || space_is_coming(w))
		return is_due || w->has_more ? MIN(next, RETRY_USEC) : next;
	if (is_short) {
		_cleanup_free_ char *path = escape_name(w->paths[0]);

		if (!w->is_short)
			log_line(LOG_NOTICE, "Policy %s: %s has %s: it runs", w->name,
				 path ? path : "?", lack);
		w->is_short = true;
	} else if (!is_due) {
		return next;
	}
	run_policy(w);
	w->space.began = w->space.highest = w->space.free;
	w->inodes.began = w->inodes.highest = w->inodes.free;
	w->handed = (struct policy_sum){ 0 };
	w->has_more = false;
	w->retry_usec = now + w->wait_usec;
	w->wait_usec = MIN(w->wait_usec * 2, RETRY_MOST_USEC);
	w->size_usec = now + SIZE_USEC;
	return next;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct watermarks *all = userdata;
	uint64_t now = now_usec(), next = URGENCY_LOOK_MOST;
	struct watermark *w;

	(void)usec;
	if (all->context->stopping)
		return 0;
	LIST_FOREACH(w, &all->list, link)
		if (!w->is_old)
			next = MIN(next, check(w, now));
	(void)sd_event_source_set_time_relative(source, next);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* ---- configuration ----------------------------------------------------------------------------
 */

static int configure(struct watermarks *all)
{
	const struct config *c = all->context->config;
	int r = 0, k;

	/* Those that run now stay until that ends. */
	for (struct watermark *w = LIST_FIRST(&all->list), *next; w; w = next) {
		next = LIST_NEXT(w, link);
		w->is_old = true;
		if (!w->process)
			watermark_free(w);
	}
	for (size_t i = 0; i < c->n_policies && r >= 0; i++)
		if (!c->policies[i].schedule && policy_has_marks(&c->policies[i].rules))
			r = watermark_new(all, &c->policies[i]);
	all->timer = sd_event_source_disable_unref(all->timer);
	if (!LIST_FIRST(&all->list))
		return r;
	k = sd_event_add_time_relative(all->context->event, &all->timer, CLOCK_MONOTONIC, 0, 0,
				       on_timer, all);
	if (k >= 0)
		(void)sd_event_source_set_description(all->timer, "watermarks");
	return r < 0 ? r : k;
}

void watermarks_configure(struct watermarks *w)
{
	int r = configure(w);

	if (r < 0)
		log_line(LOG_ERR, "Not all policies are watched: %s", strerror(-r));
}

int watermarks_new(struct watermarks **ret, struct jobs *jobs)
{
	struct watermarks *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->jobs = jobs;
	w->context = jobs->context;
	LIST_INIT(&w->list);
	*ret = w;
	return 0;
}

struct watermarks *watermarks_free(struct watermarks *w)
{
	if (!w)
		return NULL;
	for (struct watermark *i = LIST_FIRST(&w->list), *next; i; i = next) {
		next = LIST_NEXT(i, link);
		watermark_free(i);
	}
	sd_event_source_disable_unref(w->timer);
	free(w);
	return NULL;
}
