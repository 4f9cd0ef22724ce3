/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "boost.h"

#include <string.h>
#include <sys/vfs.h>

#include "config/config.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "remainder.h"
#include "job-run.h"
#include "pacing-window.h"
#include "schedule.h"
#include "policy/urgency.h"
#include "base/fd.h"
#include "base/units.h"

#define POLL_USEC (1 * USEC_PER_SEC)
#define POLL_NEAR_USEC (250 * USEC_PER_MSEC)
/* Longer than anything takes, its turn on a busy disk included, where something happens at all. */
#define SILENT_USEC (5 * USEC_PER_SEC)

/* ---- space ------------------------------------------------------------------------------------
 */

static bool may_hang(const struct jobs *jobs, const struct staging_area *area)
{
	const struct mounts *mounts = context_mounts(jobs->context);
	const struct mount *mount = mounts ? mounts_by_path(mounts, area->mount) : NULL;

	return !mount || mount_may_hang(mount);
}

/* Returns whether space may be short soon. */
static bool is_near(const struct config *c, const struct statfs *st, bool *is_short)
{
	struct space s = { .free = (uint64_t)st->f_bavail * (uint64_t)st->f_bsize,
			   .all = (uint64_t)st->f_blocks * (uint64_t)st->f_bsize };

	*is_short = urgency_space(&c->urgent_below, &c->urgent_until, &s, *is_short);
	return urgency_is_near(&c->urgent_below, &s);
}

static bool check_space(const struct job *j, int fd, bool *is_short)
{
	struct statfs st;

	if (fd < 0 || may_hang(j->jobs, j->area) || fstatfs(fd, &st) < 0)
		return false;
	return is_near(j->jobs->context->config, &st, is_short);
}

/* Of the filesystem that is mounted there; nothing of it need be open. Returns false where that is
 * not known, or asking may hang. */
static bool ask_mount(struct jobs *jobs, const struct staging_area *area, struct statfs *ret)
{
	const struct mounts *mounts = context_mounts(jobs->context);
	const struct mount *mount = mounts ? mounts_by_path(mounts, area->mount) : NULL;
	_cleanup_close_ int fd = -1;

	if (!mount || strcmp(mount->target, area->mount) != 0 ||
	    mounts_may_hang(mounts, area->mount))
		return false;
	fd = mount_open(mount, area->mount);
	return fd >= 0 && fstatfs(fd, ret) >= 0;
}

/* In a pacing window that pauses: jobs for which space is short run nevertheless. Returns whether
 * there are any to look for. */
static bool check_waiting(struct jobs *jobs, bool *near)
{
	bool any = jobs->running > 0 || jobs->counts[JOB_QUEUED] > 0, changed = false;
	struct staging_area *area;

	if (!pacing_window_pauses(jobs->window))
		return false;
	LIST_FOREACH(area, &jobs->submitters->areas, link) {
		bool is_short = any && area->short_of_space;
		struct statfs st;

		/* What is known for jobs that come later would be old by then. */
		if (any && ask_mount(jobs, area, &st))
			*near = is_near(jobs->context->config, &st, &is_short) || *near;
		changed = changed || is_short != area->short_of_space;
		area->short_of_space = is_short;
	}
	if (changed)
		jobs->window_changed(jobs);
	return any;
}

/* ---- time -------------------------------------------------------------------------------------
 */

static void say_course(struct job_run *run, const struct course *c)
{
	uint64_t ends = MAX(urgency_ends_usec(c), c->now_usec);
	char late[64];

	if (c->by_usec > c->now_usec && (ends == UINT64_MAX || ends <= c->by_usec)) {
		job_say(run->job, "speed goes before latency, to be done in time");
	} else if (ends == UINT64_MAX) {
		job_say(run->job, "is late, and goes as fast as it can");
	} else {
		(void)timespan_format(late, sizeof(late),
				      (ends - c->by_usec) / USEC_PER_SEC * USEC_PER_SEC);
		job_say(run->job,
			"cannot be done in time: as fast as it can go, it will be %s late", late);
	}
}

static void check_time(struct job_run *run)
{
	const struct job_record *r = &run->job->r;
	uint64_t at = run->chunk && run->at < run->chunk->n ? run->chunk->entries[run->at].seq : 0;
	struct course c = { .begun_usec = run->begun_usec,
			    .now_usec = context_clock(),
			    .by_usec = r->by_usec };

	if (r->by_usec == 0)
		return;
	/* A clock that was set back. */
	c.begun_usec = MIN(c.begun_usec, c.now_usec);
	if (at > run->first_seq) {
		c.done = at - run->first_seq;
		c.all = r->names + 1 - run->first_seq;
	}
	run->short_of_time = run->short_of_time || urgency_presses(&c);
	if (run->short_of_time)
		say_course(run, &c);
}

/* ---- both -------------------------------------------------------------------------------------
 */

/* Lets another job run in the stead of one that gets no further. */
static void check_progress(struct job_run *run)
{
	uint64_t now = now_usec(), is;
	struct job_record r;

	job_snapshot(run->job, &r);
	is = r.entries_done + r.bytes_freed + run->next + run->at;
	if (is != run->heard) {
		run->heard = is;
		run->heard_usec = now;
		run->job->silent = false;
	} else if (!run->job->silent && now - run->heard_usec >= SILENT_USEC) {
		run->job->silent = true;
		schedule_kick(run->jobs);
	}
}

static bool boost_run(struct job_run *run)
{
	int fd = run->staged_fd >= 0 ? run->staged_fd : run->origin_fd;
	struct remainder *remainder = run->frees_remainder ? run->job->remainder : NULL;
	bool near = check_space(run->job, remainder ? remainder_fd(remainder) : fd,
				&run->short_of_space);

	check_time(run);
	check_progress(run);
	if (run->job->deletes)
		worker_urgent(run->job->deletes, run->short_of_space || run->short_of_time);
	else if (remainder && remainder->worker)
		worker_urgent(remainder->worker, run->short_of_space || run->short_of_time);
	return near;
}

/* Of jobs that have been cancelled. Returns whether there are any. */
static bool boost_remainders(struct jobs *jobs, bool *near)
{
	struct remainder *r;
	bool any = false;

	LIST_FOREACH(r, &jobs->remainders, link) {
		if (r->held || !r->job || !job_phase_is(r->job->phase, PHASES_FREEING))
			continue;
		any = true;
		*near = check_space(r->job, remainder_fd(r), &r->short_of_space) || *near;
		if (r->worker)
			worker_urgent(r->worker, r->short_of_space);
		job_progressed(r->job);
	}
	return any;
}

static int poll_after(struct jobs *jobs, uint64_t usec);

static int on_poll(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct jobs *jobs = userdata;
	struct staging_area *area;
	bool near = false, waiting = check_waiting(jobs, &near);

	(void)source;
	(void)usec;
	if (!boost_remainders(jobs, &near) && jobs->running == 0 && !waiting)
		return 0;
	LIST_FOREACH(area, &jobs->submitters->areas, link)
		if (area->running && area->running->run)
			near = boost_run(area->running->run) || near;
	return poll_after(jobs, near ? POLL_NEAR_USEC : POLL_USEC);
}

static int poll_after(struct jobs *jobs, uint64_t usec)
{
	return timer_after(jobs->context->event, &jobs->boost_timer, usec, 0, on_poll, jobs,
			   "boost");
}

void boost_again(struct job *j)
{
	struct job_run *run = j->run;

	if (!run || run->settlement)
		return;
	if (run->short_of_time)
		job_set_text(&j->r.message, NULL);
	run->short_of_time = false;
	(void)boost_run(run);
}

void boost_begin(struct jobs *jobs)
{
	if (!timer_is_set(jobs->boost_timer) && poll_after(jobs, POLL_NEAR_USEC) < 0)
		log_line(LOG_ERR, "Out of memory: this run is not boosted when space or time is "
				  "short, ignoring");
}
