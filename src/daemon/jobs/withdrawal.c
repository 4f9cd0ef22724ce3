/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "withdrawal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/units.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "sharing.h"

/* More than MARK_HOLDS_USEC: what was begun in time may take its time. */
#define MARK_GONE_USEC (15 * USEC_PER_SEC)

/* What could not be withdrawn is tried again so often: a job that pauses may pause for days. */
#define AGAIN_USEC (10 * USEC_PER_SEC)

/* Marks of so many jobs that have ended are remembered while they cannot be removed. */
#define REMOVALS_MOST 4096

#define MARK_NUMBER_SIZE 24

/* A mark that is to be removed. */
struct mark_removal {
	LIST_ENTRY(mark_removal) link;
	struct jobs *jobs;
	struct staging_area *area;
	uint64_t job;
	bool asked; /* the answer is to come */
};

struct withdrawal {
	struct job *j; /* NULL: it is over, and the answer to what was asked comes yet */
	bool asked;    /* for the mark to be withdrawn */
	bool fails;    /* to be asked, and is tried again by and by */
	bool over;     /* no other host goes on any more, if it goes by its clock */
	sd_event_source *timer;
	char *said; /* by the job, before it said that it waits; or NULL */
	/* NULL: nothing waits for it. */
	void (*done)(struct job *j, int r, void *userdata);
	void *userdata;
};

/* ---- marks -------------------------------------------------------------------------------- */

typedef int (*mark_request_t)(struct worker *w, const struct mark_place *m,
			      void (*done)(int r, void *userdata), void *userdata);

/* Where the mark of a job is, as long as number is there, and which worker can be asked for it.
 * Returns 0 or a negative errno. */
static int mark_find(struct staging_area *area, uint64_t job, char number[static MARK_NUMBER_SIZE],
		     struct mark_place *ret, struct worker **ret_root)
{
	const struct mounts *mounts = context_mounts(area->submitters->context);
	const struct mount *mount = mounts ? mounts_by_path(mounts, area->mount) : NULL;

	/* What is at that path otherwise is on another filesystem. */
	if (!mount || strcmp(mount->target, area->mount) != 0)
		return -ENODEV;
	(void)snprintf(number, MARK_NUMBER_SIZE, "%" PRIu64, job);
	*ret = (struct mark_place){
		.mount_path = area->mount, .mnt_id = mount->id, .host = area->host, .job = number
	};
	return staging_area_intake(area, area->submitters->root, ret_root);
}

/* Has the mark of a job withdrawn, or removed. */
static int mark_ask(struct staging_area *area, uint64_t job, mark_request_t request,
		    void (*done)(int r, void *userdata), void *userdata)
{
	char number[MARK_NUMBER_SIZE];
	struct mark_place place;
	struct worker *root;
	int r = mark_find(area, job, number, &place, &root);

	return r < 0 ? r : request(root, &place, done, userdata);
}

static void removal_free(struct mark_removal *m)
{
	LIST_REMOVE(m, link);
	m->jobs->n_mark_removals--;
	staging_area_unref(m->area);
	free(m);
}

/* Of what is not mounted, or is just being so; or the worker has died. */
static bool helps_later(int r)
{
	return r == -ENODEV || r == -EXDEV || r == -ENOENT || r == -EPIPE || r == -ECANCELED;
}

static void on_removed(int r, void *userdata)
{
	struct mark_removal *m = userdata;

	m->asked = false;
	if (r < 0)
		debug_log("fleet: the mark of job %" PRIu64 " cannot be removed: %s", m->job,
			  strerror(-r));
	if (r >= 0 || !helps_later(r))
		removal_free(m);
}

static void removal_ask(struct mark_removal *m)
{
	int r;

	m->asked = true;
	r = mark_ask(m->area, m->job, worker_remove_mark, on_removed, m);
	if (r < 0)
		on_removed(r, m);
}

static void removal_begin(struct jobs *jobs, struct staging_area *area, uint64_t job)
{
	struct mark_removal *m =
		jobs->n_mark_removals < REMOVALS_MOST ? calloc(1, sizeof(*m)) : NULL;

	if (!m)
		return;
	*m = (struct mark_removal){ .jobs = jobs, .area = staging_area_ref(area), .job = job };
	LIST_INSERT_HEAD(&jobs->mark_removals, m, link);
	jobs->n_mark_removals++;
	removal_ask(m);
}

/* It is not waited for: one that stays is withdrawn, and says nothing of any other job. The next
 * start removes it (stale-marks.h). */
static void mark_remove(struct job *j)
{
	j->shared = j->marked = false;
	removal_begin(j->jobs, j->area, j->r.id);
}

void withdrawals_remove(struct jobs *jobs, const char *mount, const char *host, uint64_t job)
{
	_cleanup_(staging_area_unrefp) struct staging_area *area = NULL;

	/* By the same worker as marks are made. */
	if (staging_area_get(&area, jobs->submitters, jobs->submitters->root, mount, host, 0) >= 0)
		removal_begin(jobs, area, job);
}

void withdrawals_mounts_changed(struct jobs *jobs)
{
	struct mark_removal *m, *next;
	const struct job *j;

	for (m = LIST_FIRST(&jobs->mark_removals); m; m = next) {
		next = LIST_NEXT(m, link);
		j = job_table_find_awake(&jobs->table, m->job);
		if (m->asked)
			continue;
		/* It may have been made anew since, and is removed when that job ends. */
		if (j && j->shared)
			removal_free(m);
		else
			removal_ask(m);
	}
}

/* ---- what waits --------------------------------------------------------------------------- */

/* It is gone afterwards, or with the answer that is still to come. */
static void end(struct withdrawal *w, int r)
{
	void (*done)(struct job * j, int r, void *userdata) = w->done;
	void *userdata = w->userdata;
	struct job *j = w->j;

	j->withdrawal = NULL;
	w->j = NULL;
	w->timer = sd_event_source_disable_unref(w->timer);
	if (w->said) {
		job_set_text(&j->r.message, w->said);
		job_tell(j);
	}
	free(w->said);
	w->said = NULL;
	if (!w->asked)
		free(w);
	if (done)
		done(j, r, userdata);
}

void withdrawal_look(struct job *j)
{
	const struct sharing *sharing = j->jobs->sharing;
	struct withdrawal *w = j->withdrawal;

	if (!w || !w->over)
		return;
	if (sharing && sharing->is_busy(j, sharing->userdata)) {
		debug_log("job %" PRIu64 ": another host has a part of it, says the database",
			  j->r.id);
		return;
	}
	mark_remove(j);
	end(w, 0);
}

static int on_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct withdrawal *w = userdata;

	(void)source;
	(void)usec;
	w->over = true;
	withdrawal_look(w->j);
	return 0;
}

static void say_waits(struct withdrawal *w)
{
	struct job *j = w->j;

	w->said = strdup(j->r.message);
	if (!job_say(j,
		     "waits before its names go back until no other host of the fleet can delete "
		     "in it: for up to %u seconds, and as long as the database of the fleet says "
		     "that one has a part of it",
		     (unsigned)(MARK_GONE_USEC / USEC_PER_SEC)))
		return;
	job_tell(j);
	log_job(LOG_INFO, SD_ID128_NULL, &j->r, "Job %" PRIu64 " %s", j->r.id, j->r.message);
}

static void fail(struct withdrawal *w, int r);

static void on_withdrawn(int r, void *userdata)
{
	struct withdrawal *w = userdata;
	struct job *j = w->j;

	w->asked = false;
	if (!j) {
		free(w);
		return;
	}
	/* There was none when this process began: no host has any of it. One that was there since,
	 * and is gone, is withdrawn. */
	if (r == -ENOENT && !j->marked) {
		j->shared = false;
		end(w, 0);
		return;
	}
	if (r >= 0 || r == -ENOENT)
		r = timer_at(j->jobs->context->event, &w->timer, CLOCK_BOOTTIME,
			     boot_usec() + MARK_GONE_USEC, 1, on_over, w, "withdrawal");
	if (r < 0)
		fail(w, r);
	else if (w->done)
		say_waits(w);
}

static int ask(struct withdrawal *w)
{
	int r = mark_ask(w->j->area, w->j->r.id, worker_withdraw_mark, on_withdrawn, w);

	w->asked = r >= 0;
	w->fails = r < 0;
	return r;
}

static int on_again(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct withdrawal *w = userdata;
	int r;

	(void)source;
	(void)usec;
	w->timer = sd_event_source_disable_unref(w->timer);
	r = ask(w);
	if (r < 0)
		fail(w, r);
	return 0;
}

/* Reports the error to the caller of withdrawal_wait(). If there is none, tries again later,
 * because nothing else would. */
static void fail(struct withdrawal *w, int r)
{
	debug_log("job %" PRIu64 ": its mark cannot be withdrawn: %s", w->j->r.id, strerror(-r));
	w->fails = true;
	if (w->done || timer_at(w->j->jobs->context->event, &w->timer, CLOCK_BOOTTIME,
				boot_usec() + AGAIN_USEC, 0, on_again, w, "withdrawal-again") < 0)
		end(w, r);
}

static struct withdrawal *withdrawal_new(struct job *j)
{
	const struct sharing *sharing = j->jobs->sharing;
	struct withdrawal *w = calloc(1, sizeof(*w));

	assert(!j->withdrawal);
	if (!w)
		return NULL;
	w->j = j;
	w->fails = true;
	j->withdrawal = w;
	if (sharing)
		sharing->recall(j, sharing->userdata);
	return w;
}

void withdrawal_begin(struct job *j)
{
	struct withdrawal *w;
	int r;

	if (!j->shared || j->withdrawal)
		return;
	/* Without memory, what needs it tries again. */
	w = withdrawal_new(j);
	r = w ? ask(w) : 0;
	if (r < 0)
		fail(w, r);
}

void withdrawal_wait(struct job *j, void (*done)(struct job *j, int r, void *userdata),
		     void *userdata)
{
	struct withdrawal *w = j->withdrawal;
	int r = 0;

	if (j->shared && j->jobs->context->stopping)
		r = -ECANCELED;
	else if (j->shared && !w)
		r = (w = withdrawal_new(j)) ? 0 : -ENOMEM;
	if (j->shared && r >= 0 && w->fails) {
		w->timer = sd_event_source_disable_unref(w->timer);
		r = ask(w);
		if (r < 0)
			end(w, r);
	}
	if (!j->shared || r < 0) {
		done(j, r, userdata);
		return;
	}
	assert(!w->done);
	w->done = done;
	w->userdata = userdata;
	if (!w->asked)
		say_waits(w);
	withdrawal_look(j);
}

void withdrawal_forget(struct job *j)
{
	if (j->withdrawal)
		end(j->withdrawal, -ECANCELED);
}

void withdrawal_finish(struct job *j)
{
	withdrawal_forget(j);
	if (j->shared)
		mark_remove(j);
}

void withdrawals_stop(struct jobs *jobs)
{
	struct job *j, *next;

	JOBS_FOREACH_SAFE(j, next, jobs)
		withdrawal_forget(j);
}

void withdrawals_done(struct jobs *jobs)
{
	struct mark_removal *m, *next;

	for (m = LIST_FIRST(&jobs->mark_removals); m; m = next) {
		next = LIST_NEXT(m, link);
		assert(!m->asked);
		removal_free(m);
	}
}
