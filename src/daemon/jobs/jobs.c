/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "jobs.h"

#include <errno.h>

#include "boost.h"
#include "config/config.h"
#include "daemon/context/timer.h"
#include "durability.h"
#include "job-control.h"
#include "job-recover.h"
#include "job-rest.h"
#include "job-run.h"
#include "pacing-window.h"
#include "remainder.h"
#include "schedule.h"
#include "shrinking.h"
#include "withdrawal.h"

/* Jobs that have become older than `history` are removed this often. */
#define HISTORY_USEC (3600 * USEC_PER_SEC)

/* The undo window of a job is over, or it is time to try it again. */
static void on_due(struct job_stub *s)
{
	if (s->job) {
		schedule_job(s->job);
		job_save(s->job, NULL, NULL);
	} else if (s->phase == PHASE_QUEUED && !s->takes_back) {
		schedule_stub(s);
	} else {
		job_turn_wait(s);
	}
}

static void on_turn(struct job *j)
{
	if (!job_phase_is(j->phase, PHASES_AT_REST))
		return; /* somebody else has woken it for another reason */
	if (job_life_start(j->phase, j->r.resume_state) == START_TAKE_BACK) {
		recover_take_up(j);
	} else if (j->phase == PHASE_HELD) {
		schedule_job(j);
		job_save(j, NULL, NULL);
	}
}

static void begin_boosted(struct job *j)
{
	struct jobs *jobs = j->jobs;

	run_begin(j);
	boost_begin(jobs);
}

static void back_in_queue(struct job *j, void *userdata)
{
	(void)userdata;
	if (job_state_finished(j->r.state))
		return;
	schedule_job(j);
	job_save(j, NULL, NULL);
}

/* What may not run any more stops, and what may now begins. */
static void on_window(struct jobs *jobs)
{
	struct staging_area *area;
	struct job *j, *next;

	/* Nothing begins any more. */
	if (jobs->context->stopping)
		return;
	LIST_FOREACH(area, &jobs->submitters->areas, link)
		area->short_of_space = area->short_of_space && pacing_window_pauses(jobs->window);
	JOBS_FOREACH_SAFE(j, next, jobs)
		if (j->phase == PHASE_RUNNING && pacing_window_rests(jobs, j->area))
			(void)run_stop(j, back_in_queue, NULL);
	control_remainders_update(jobs);
	schedule_kick(jobs);
	schedule_status(jobs);
}

void jobs_init(struct jobs *jobs, struct context *c, struct submitters *s)
{
	*jobs = (struct jobs){ .context = c,
			       .submitters = s,
			       .at_hand = { .dirfd = -1 },
			       .begin = begin_boosted,
			       .due = on_due,
			       .turn = on_turn,
			       .staging_changed = recover_retry,
			       .rest = boost_begin,
			       .window_changed = on_window };
	TAILQ_INIT(&jobs->table.in_order);
	TAILQ_INIT(&jobs->table.awake);
	TAILQ_INIT(&jobs->turns);
	LIST_INIT(&jobs->may_rest);
	LIST_INIT(&jobs->remainders);
	LIST_INIT(&jobs->mark_removals);
}

/* ---- history ----------------------------------------------------------------------------------
 */

static int on_history(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct jobs *jobs = userdata;
	const struct config *c = jobs->context->config;
	uint64_t now = context_clock();

	(void)source;
	(void)usec;
	store_queue_limit_history(
		jobs->context->store,
		&(struct history_limits){ .before_usec =
						  now > c->history_usec ? now - c->history_usec : 0,
					  .jobs = c->history_jobs,
					  .bytes = c->history_bytes });
	return timer_after(jobs->context->event, &jobs->history_timer, HISTORY_USEC,
			   60 * USEC_PER_SEC, on_history, jobs, "history");
}

int jobs_limit_history(struct jobs *jobs)
{
	return on_history(NULL, 0, jobs);
}

int jobs_begin(struct jobs *jobs)
{
	struct job *j, *next;
	int r = jobs_limit_history(jobs);

	if (r >= 0)
		r = job_rest_begin(jobs);
	if (r >= 0)
		r = pacing_window_new(&jobs->window, jobs);
	if (r < 0)
		return r;
	shrinking_begin(jobs);
	JOBS_FOREACH_SAFE(j, next, jobs)
		(void)remainder_of(j);
	remainders_check_mounts(jobs);
	recover_begin(jobs);
	return 0;
}

/* ---- what changes around them -----------------------------------------------------------------
 */

void jobs_mounts_changed(struct jobs *jobs)
{
	struct job *j, *next;

	recover_retry(jobs);
	JOBS_FOREACH_SAFE(j, next, jobs) {
		if (j->run)
			run_check_mount(j);
	}
	remainders_check_mounts(jobs);
	withdrawals_mounts_changed(jobs);
	schedule_retry_absent(jobs);
}

void jobs_lease_broken(struct jobs *jobs)
{
	struct job *j, *next;

	JOBS_FOREACH_SAFE(j, next, jobs)
		(void)shrinking_is_left(j);
}

void jobs_save_retry(struct jobs *jobs)
{
	struct job *j, *next;

	JOBS_FOREACH_SAFE(j, next, jobs)
		job_save_retry(j);
}

void jobs_store_recovered(struct jobs *jobs)
{
	struct job_stub *s;
	struct job *j, *next;

	TAILQ_FOREACH(s, &jobs->table.in_order, in_order)
		if (!s->job && s->phase == PHASE_QUEUED && s->due.index > 0 && !s->takes_back)
			schedule_stub(s);
	JOBS_FOREACH_SAFE(j, next, jobs) {
		if (j->phase == PHASE_QUEUED && j->retry_usec > 0) {
			j->retry_usec = 0;
			schedule_job(j);
		}
	}
}

/* ---- all pause --------------------------------------------------------------------------------
 */

struct pausing {
	bool pause;
	size_t open;
	int error;
	struct context *context;
	void (*done)(int r, void *userdata);
	void *userdata;
};

static int pausing_work(struct store *store, void *userdata)
{
	const struct pausing *p = userdata;

	return store_meta_set(store, "paused", p->pause ? "yes" : "no");
}

static void pausing_step(struct pausing *p)
{
	if (--p->open > 0)
		return;
	p->done(p->error, p->userdata);
	free(p);
}

static void pausing_saved(int r, void *userdata)
{
	struct pausing *p = userdata;

	store_says(p->context, r);
	p->error = r;
	pausing_step(p);
}

static void on_paused(struct job *j, void *userdata)
{
	back_in_queue(j, NULL);
	pausing_step(userdata);
}

int jobs_pause_all(struct jobs *jobs, bool pause, void (*done)(int r, void *userdata),
		   void *userdata)
{
	struct pausing *p = calloc(1, sizeof(*p));
	struct job *j, *next;

	if (!p)
		return -ENOMEM;
	*p = (struct pausing){ .pause = pause,
			       .open = 1,
			       .context = jobs->context,
			       .done = done,
			       .userdata = userdata };
	jobs->paused = pause;
	tell_daemon_changed(jobs->context, "Paused");
	p->error = store_queue_post(jobs->context->store, pausing_work, pausing_saved, p);
	if (p->error >= 0)
		p->open++;
	else
		store_says(jobs->context, p->error);
	JOBS_FOREACH_SAFE(j, next, jobs) {
		if (pause && j->phase != PHASE_RUNNING)
			withdrawal_begin(j);
		if (!pause || j->phase != PHASE_RUNNING)
			continue;
		p->open++;
		if (run_stop(j, on_paused, p) < 0)
			p->open--;
	}
	control_remainders_update(jobs);
	if (!pause)
		schedule_kick(jobs);
	pausing_step(p);
	return 0;
}

/* ---- the end ----------------------------------------------------------------------------------
 */

void jobs_stop(struct jobs *jobs)
{
	struct job *j, *next;

	JOBS_FOREACH_SAFE(j, next, jobs)
		if (j->phase == PHASE_RUNNING)
			(void)run_stop(j, back_in_queue, NULL);
	withdrawals_stop(jobs);
}

void jobs_end_workers(struct jobs *jobs)
{
	struct staging_area *area, *next;
	struct job *j, *next_job;

	JOBS_FOREACH_SAFE(j, next_job, jobs)
		run_end_worker(j);
	for (area = LIST_FIRST(&jobs->submitters->areas); area; area = next) {
		staging_area_ref(area);
		area->deleter = worker_free(area->deleter);
		flush_give_up(area);
		next = LIST_NEXT(area, link);
		staging_area_unref(area);
	}
	remainders_end(jobs);
}

void jobs_done(struct jobs *jobs)
{
	jobs->window = pacing_window_free(jobs->window);
	at_hand_clear(jobs);
	shrinking_end(jobs);
	withdrawals_stop(jobs);
	withdrawals_done(jobs);
	job_table_done(&jobs->table);
	free(jobs->fleet.error);
	due_heap_done(&jobs->waiting);
	sd_event_source_disable_unref(jobs->deadline_timer);
	sd_event_source_disable_unref(jobs->staging_timer);
	sd_event_source_disable_unref(jobs->schedule_source);
	jobs->rest_source = sd_event_source_disable_unref(jobs->rest_source);
	sd_event_source_disable_unref(jobs->boost_timer);
	sd_event_source_disable_unref(jobs->history_timer);
}
