/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "schedule.h"

#include <assert.h>
#include <inttypes.h>
#include <systemd/sd-daemon.h>

#include "daemon/context/log.h"
#include "deadlines.h"
#include "schedule-order.h"

/* Times of people: none notices a tenth of a second. */
#define DEADLINE_ACCURACY_USEC (100 * USEC_PER_MSEC)

/* What is less is a clock that is being corrected. */
#define STEP_LEAST_USEC ((int64_t)USEC_PER_SEC)

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
	LIST_FOREACH(area, &jobs->submitters->areas, link)
	{
		bool waits = area->running || area->absent || staging_area_flush_is_full(area);
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
		"STATUS=%s%u running, %" PRIu64 " queued, %" PRIu64 " held, %" PRIu64 " paused%s",
		jobs->paused ? "Paused; " : "", jobs->running, jobs->counts[JOB_QUEUED],
		jobs->counts[JOB_HELD], jobs->counts[JOB_PAUSED],
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

static void arm(struct jobs *jobs);

uint64_t schedule_moved(uint64_t usec, int64_t step)
{
	if (usec == 0)
		return 0;
	return step < 0 && usec <= (uint64_t)-step ? 1 : usec + (uint64_t)step;
}

/* All by the same, so that their order stays. */
static void move_windows(struct jobs *jobs, int64_t step)
{
	struct job *j;

	TAILQ_FOREACH(j, &jobs->table.in_order, in_order)
	{
		j->retry_usec = schedule_moved(j->retry_usec, step);
		if (j->r.held_until_usec == 0 || j->r.started_usec > 0)
			continue;
		j->r.held_until_usec = schedule_moved(j->r.held_until_usec, step);
		/* What is still being submitted is saved when its names have been moved. */
		if (j->phase != PHASE_MOVING)
			job_save(j, NULL, NULL);
	}
}

uint64_t schedule_clock(struct jobs *jobs)
{
	int64_t offset = context_clock_offset(), step = offset - jobs->clock_offset;

	if (jobs->clock_offset == 0) {
		jobs->clock_offset = offset;
	} else if (step > STEP_LEAST_USEC || step < -STEP_LEAST_USEC) {
		jobs->clock_offset = offset;
		log_line(LOG_NOTICE,
			 "The clock was set %s by %" PRIi64 " s: what is held stays so for as long "
			 "as it would have",
			 step < 0 ? "back" : "forward",
			 (step < 0 ? -step : step) / (int64_t)USEC_PER_SEC);
		move_windows(jobs, step);
	}
	return context_clock() - (uint64_t)offset + (uint64_t)jobs->clock_offset;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct jobs *jobs = userdata;
	uint64_t now = schedule_clock(jobs);
	struct job *j;

	(void)source;
	(void)usec;
	while ((j = deadlines_first(&jobs->deadlines)) && job_deadline_usec(j) <= now) {
		deadlines_remove(&jobs->deadlines, j);
		schedule_job(j);
		job_save(j, NULL, NULL);
	}
	arm(jobs);
	return 0;
}

/* By a clock that cannot be set, and that goes on while the machine sleeps. */
static void arm(struct jobs *jobs)
{
	struct job *j = deadlines_first(&jobs->deadlines);
	uint64_t due = j ? schedule_moved(job_deadline_usec(j), -jobs->clock_offset) : 0;

	if (!j) {
		(void)sd_event_source_set_enabled(jobs->deadline_timer, SD_EVENT_OFF);
		return;
	}
	if (!jobs->deadline_timer) {
		if (sd_event_add_time(jobs->context->event, &jobs->deadline_timer, CLOCK_BOOTTIME,
				      due, DEADLINE_ACCURACY_USEC, on_deadline, jobs) < 0)
			log_line(LOG_ERR, "Out of memory: jobs that wait for a time wait for the "
					  "next change");
		else
			(void)sd_event_source_set_description(jobs->deadline_timer, "undo");
		return;
	}
	(void)sd_event_source_set_time(jobs->deadline_timer, due);
	(void)sd_event_source_set_enabled(jobs->deadline_timer, SD_EVENT_ONESHOT);
}

static void wait_for_deadline(struct job *j, enum job_event event)
{
	deadlines_add(&j->jobs->deadlines, j);
	arm(j->jobs);
	job_event(j, event);
}

void schedule_job(struct job *j)
{
	struct jobs *jobs = j->jobs;
	uint64_t now = schedule_clock(jobs);

	schedule_remove(j);
	if (j->r.held_until_usec > now && j->r.started_usec == 0) {
		j->retry_usec = 0;
		wait_for_deadline(j, EVENT_HOLD);
		return;
	}
	if (j->retry_usec > now) {
		wait_for_deadline(j, EVENT_QUEUE);
		return;
	}
	j->retry_usec = 0;
	TAILQ_INSERT_TAIL(&j->area->queues[j->r.priority], j, in_queue);
	j->queued = true;
	job_event(j, EVENT_QUEUE);
	schedule_kick(jobs);
}

void schedule_remove(struct job *j)
{
	deadlines_remove(&j->jobs->deadlines, j);
	if (j->queued)
		TAILQ_REMOVE(&j->area->queues[j->r.priority], j, in_queue);
	j->queued = false;
}

void schedule_retry_absent(struct jobs *jobs)
{
	struct staging_area *area;

	LIST_FOREACH(area, &jobs->submitters->areas, link)
	area->absent = false;
	schedule_kick(jobs);
}
