/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "schedule.h"

#include <assert.h>
#include <inttypes.h>
#include <systemd/sd-daemon.h>

#include "daemon/context/log.h"
#include "pacing-window.h"
#include "schedule-order.h"
#include "undo-deadline.h"

static const struct job *next_of(const struct staging_area *area)
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

static struct job *choose(struct jobs *jobs)
{
	struct scheduler_slot running[SCHEDULER_BOTH_MAX];
	struct candidate best = { 0 };
	const struct job *chosen = NULL;
	struct staging_area *area;
	size_t n = 0;

	if (jobs->paused || jobs->context->stopping || jobs->running >= SCHEDULER_BOTH_MAX)
		return NULL;
	LIST_FOREACH(area, &jobs->submitters->areas, link)
		if (area->running)
			running[n++] = slot_of(area);
	LIST_FOREACH(area, &jobs->submitters->areas, link) {
		bool waits = area->running || area->absent || pacing_window_rests(jobs, area) ||
			     staging_area_flush_is_full(area);
		const struct job *j = waits ? NULL : next_of(area);
		struct scheduler_slot slot = slot_of(area);
		struct candidate c;

		if (!j || !scheduler_has_room(&slot, running, n))
			continue;
		c = (struct candidate){ .priority = j->r.priority,
					.served = j->submitter->user->served };
		if (!chosen || scheduler_before(&c, &best)) {
			chosen = j;
			best = c;
		}
	}
	return (struct job *)chosen;
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

static int on_schedule(sd_event_source *source, void *userdata)
{
	struct jobs *jobs = userdata;
	struct job *j;

	(void)source;
	while ((j = choose(jobs))) {
		schedule_remove(j);
		j->submitter->user->served = ++jobs->served;
		jobs->begin(j);
	}
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

void schedule_job(struct job *j)
{
	struct jobs *jobs = j->jobs;
	uint64_t now = deadline_clock(jobs);

	schedule_remove(j);
	if (j->r.held_until_usec > now && j->r.started_usec == 0) {
		j->retry_usec = 0;
		deadline_wait(j, j->r.held_until_usec);
		job_enter(j, PHASE_HELD);
		return;
	}
	if (j->retry_usec > now) {
		deadline_wait(j, j->retry_usec);
	} else {
		j->retry_usec = 0;
		TAILQ_INSERT_TAIL(&j->area->queues[j->r.priority], j, in_queue);
		j->queued = true;
		schedule_kick(jobs);
	}
	job_enter(j, PHASE_QUEUED);
}

void schedule_remove(struct job *j)
{
	deadline_remove(j);
	if (j->queued)
		TAILQ_REMOVE(&j->area->queues[j->r.priority], j, in_queue);
	j->queued = false;
}

void schedule_priority(struct job *j, enum job_priority p)
{
	if (j->queued && p != j->r.priority) {
		TAILQ_REMOVE(&j->area->queues[j->r.priority], j, in_queue);
		TAILQ_INSERT_TAIL(&j->area->queues[p], j, in_queue);
		schedule_kick(j->jobs);
	}
	j->r.priority = p;
}

void schedule_retry_absent(struct jobs *jobs)
{
	struct staging_area *area;

	LIST_FOREACH(area, &jobs->submitters->areas, link)
		area->absent = area->absent && !staging_area_is_mounted(area);
	schedule_kick(jobs);
}
