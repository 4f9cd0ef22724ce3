/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "schedule.h"

#include <assert.h>
#include <inttypes.h>
#include <systemd/sd-daemon.h>

#include "daemon/context/log.h"
#include "job-rest.h"
#include "pacing-window.h"
#include "schedule-order.h"
#include "undo-deadline.h"

/* How long a job waits whose record could not be read. */
#define RETRY_USEC (1 * USEC_PER_SEC)

static void stub_remove(struct job_stub *s)
{
	deadline_remove(s);
	if (s->place == STUB_QUEUED)
		TAILQ_REMOVE(&s->area->queues[s->priority], s, in_queue);
	else if (s->place == STUB_TURN)
		TAILQ_REMOVE(&s->jobs->turns, s, in_queue);
	s->place = STUB_NOWHERE;
}

static struct job_stub *next_of(const struct staging_area *area)
{
	for (size_t i = PRIORITIES; i-- > 0;)
		if (!TAILQ_EMPTY(&area->queues[i]))
			return TAILQ_FIRST(&area->queues[i]);
	return NULL;
}

static struct scheduler_slot slot_of(const struct staging_area *area)
{
	return (struct scheduler_slot){ .dev = area->dev,
					.account = area->submitter->user->account,
					.silent = area->running && area->running->silent };
}

/* Returns the job that is to begin now, or NULL. */
static struct job_stub *choose(struct jobs *jobs)
{
	struct scheduler_slot running[SCHEDULER_BOTH_MAX];
	struct candidate best = { 0 };
	struct job_stub *chosen = NULL;
	struct staging_area *area;
	size_t n = 0;

	if (jobs->paused || jobs->context->stopping ||
	    jobs->running + jobs->waking >= SCHEDULER_BOTH_MAX)
		return NULL;
	LIST_FOREACH(area, &jobs->submitters->areas, link)
		if (area->running || area->waking)
			running[n++] = slot_of(area);
	LIST_FOREACH(area, &jobs->submitters->areas, link) {
		bool waits = area->running || area->waking || area->absent ||
			     pacing_window_rests(jobs, area) || staging_area_flush_is_full(area);
		struct job_stub *s = waits ? NULL : next_of(area);
		struct scheduler_slot slot = slot_of(area);
		struct candidate c;

		if (!s || !scheduler_has_room(&slot, running, n))
			continue;
		c = (struct candidate){ .priority = s->priority,
					.served = s->submitter->user->served };
		if (!chosen || scheduler_before(&c, &best)) {
			chosen = s;
			best = c;
		}
	}
	return chosen;
}

void schedule_status(const struct jobs *jobs)
{
	if (jobs->context->stopping)
		return;
	(void)sd_notifyf(
		/* unset_environment= */ 0,
		"STATUS=%s%s%u running, %" PRIu64 " queued, %" PRIu64 " held, %" PRIu64 " paused%s",
		jobs->paused ? "Paused; " : "",
		pacing_window_pauses(jobs->window) ? "Pauses by a pacing window; " : "",
		jobs->running, jobs->counts[JOB_QUEUED], jobs->counts[JOB_HELD],
		jobs->counts[JOB_PAUSED],
		jobs->orphans > 0 ? "; staging has what is of no job (see the journal)" : "");
}

static void wake_chosen(struct job_stub *s);

static void begin_all(struct jobs *jobs)
{
	struct job_stub *s;

	while ((s = choose(jobs))) {
		if (!s->job) {
			wake_chosen(s);
			continue;
		}
		schedule_remove(s->job);
		s->submitter->user->served = ++jobs->served;
		jobs->begin(s->job);
	}
}

static void on_awake(int r, struct job_stub *s, void *userdata)
{
	(void)userdata;
	s->area->waking = false;
	s->jobs->waking--;
	if (r < 0 && s->place == STUB_QUEUED) {
		stub_remove(s);
		deadline_wait(s, deadline_clock(s->jobs) + RETRY_USEC);
	}
	/* It begins before it can fall asleep again, unless another job has to go first by now. */
	begin_all(s->jobs);
}

static void wake_chosen(struct job_stub *s)
{
	s->area->waking = true;
	s->jobs->waking++;
	job_wake(s, on_awake, NULL);
}

static int on_schedule(sd_event_source *source, void *userdata)
{
	struct jobs *jobs = userdata;

	(void)source;
	begin_all(jobs);
	at_hand_clear(jobs);
	if (pacing_window_pauses(jobs->window))
		jobs->rest(jobs);
	schedule_status(jobs);
	return 0;
}

void schedule_enter(struct job *j)
{
	assert(!j->area->running);
	j->area->running = j;
	j->jobs->running++;
}

void schedule_leave(struct job *j)
{
	if (j->area->running != j)
		return;
	assert(j->jobs->running > 0);
	j->area->running = NULL;
	j->jobs->running--;
}

void schedule_kick(struct jobs *jobs)
{
	if (jobs->schedule_source)
		(void)sd_event_source_set_enabled(jobs->schedule_source, SD_EVENT_ONESHOT);
	else if (sd_event_add_defer(jobs->context->event, &jobs->schedule_source, on_schedule,
				    jobs) >= 0)
		(void)sd_event_source_set_description(jobs->schedule_source, "schedule");
	else
		log_line(LOG_ERR, "Out of memory: jobs wait until the next change");
}

static void stub_enqueue(struct job_stub *s)
{
	TAILQ_INSERT_TAIL(&s->area->queues[s->priority], s, in_queue);
	s->place = STUB_QUEUED;
	schedule_kick(s->jobs);
}

void schedule_stub(struct job_stub *s)
{
	struct jobs *jobs = s->jobs;
	bool held = s->held_until_usec > deadline_clock(jobs) && !s->started;

	assert(!s->job && !s->takes_back);
	stub_remove(s);
	jobs->counts[job_phases[s->phase].state]--;
	s->phase = held ? PHASE_HELD : PHASE_QUEUED;
	jobs->counts[job_phases[s->phase].state]++;
	if (held)
		deadline_wait(s, s->held_until_usec);
	else
		stub_enqueue(s);
}

void schedule_job(struct job *j)
{
	struct jobs *jobs = j->jobs;
	uint64_t now = deadline_clock(jobs);

	schedule_remove(j);
	if (j->r.held_until_usec > now && j->r.started_usec == 0) {
		j->retry_usec = 0;
		deadline_wait(j->stub, j->r.held_until_usec);
		job_enter(j, PHASE_HELD);
		return;
	}
	if (j->retry_usec > now) {
		deadline_wait(j->stub, j->retry_usec);
	} else {
		j->retry_usec = 0;
		stub_enqueue(j->stub);
	}
	job_enter(j, PHASE_QUEUED);
}

void schedule_remove(struct job *j)
{
	stub_remove(j->stub);
}

void schedule_withhold(struct job_stub *s)
{
	if (s)
		stub_remove(s);
}

void schedule_release(struct job_stub *s)
{
	enum job_phase phase = s->job ? s->job->phase : s->phase;

	if (s->place != STUB_NOWHERE || s->due.index > 0)
		return;
	if (!s->job && s->takes_back)
		job_turn_wait(s);
	else if (!job_phase_is(phase, IN_PHASE(HELD) | IN_PHASE(QUEUED)))
		return;
	else if (s->job)
		schedule_job(s->job);
	else
		schedule_stub(s);
}

void schedule_priority(struct job *j, enum job_priority p)
{
	struct job_stub *s = j->stub;
	bool moves = s->place == STUB_QUEUED && p != j->r.priority;

	if (moves)
		TAILQ_REMOVE(&s->area->queues[s->priority], s, in_queue);
	s->priority = p;
	j->r.priority = p;
	if (moves)
		stub_enqueue(s);
}

void schedule_retry_absent(struct jobs *jobs)
{
	struct staging_area *area;

	LIST_FOREACH(area, &jobs->submitters->areas, link)
		area->absent = area->absent && !staging_area_is_mounted(area);
	schedule_kick(jobs);
}
