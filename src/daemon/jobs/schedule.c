/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "schedule.h"

#include <inttypes.h>

#include "daemon/log.h"
#include "daemon/manager.h"
#include "job-run.h"
#include "schedule-order.h"

/* Times of people: none notices a tenth of a second. */
#define DUE_ACCURACY_USEC (100 * USEC_PER_MSEC)

/* What is less is a clock that is being corrected. */
#define STEP_LEAST_USEC ((int64_t)USEC_PER_SEC)

static const struct job *next_of(const struct place *p)
{
	for (size_t i = PRIORITIES; i-- > 0;)
		if (!TAILQ_EMPTY(&p->queues[i]))
			return TAILQ_FIRST(&p->queues[i]);
	return NULL;
}

static struct scheduler_slot slot_of(const struct place *p)
{
	return (struct scheduler_slot){ .dev = p->dev,
					.account = p->owner->user->account,
					.silent = p->running && run_is_silent(p->running) };
}

static struct job *choose(struct manager *m)
{
	struct scheduler_slot running[SCHEDULER_BOTH_MAX];
	struct candidate best = { 0 };
	const struct job *chosen = NULL;
	struct place *p;
	size_t n = 0;

	if (m->paused || m->stopping || m->running >= SCHEDULER_BOTH_MAX)
		return NULL;
	LIST_FOREACH(p, &m->places, link)
	if (p->running)
		running[n++] = slot_of(p);
	LIST_FOREACH(p, &m->places, link)
	{
		bool waits = p->running || p->absent || flush_is_full(p);
		const struct job *j = waits ? NULL : next_of(p);
		struct scheduler_slot slot = slot_of(p);
		struct candidate c;

		if (!j || !scheduler_has_room(&slot, running, n))
			continue;
		c = (struct candidate){ .priority = j->r.priority,
					.served = j->owner->user->served };
		if (!chosen || scheduler_before(&c, &best)) {
			chosen = j;
			best = c;
		}
	}
	return (struct job *)chosen;
}

static int on_schedule(sd_event_source *source, void *userdata)
{
	struct manager *m = userdata;
	struct job *j;

	(void)source;
	while ((j = choose(m))) {
		schedule_remove(j);
		j->owner->user->served = ++m->served;
		run_begin(j);
	}
	manager_status(m);
	return 0;
}

void schedule_kick(struct manager *m)
{
	if (m->schedule_source)
		(void)sd_event_source_set_enabled(m->schedule_source, SD_EVENT_ONESHOT);
	else if (sd_event_add_defer(m->event, &m->schedule_source, on_schedule, m) >= 0)
		(void)sd_event_source_set_description(m->schedule_source, "schedule");
	else
		log_line(LOG_ERR, "Out of memory: jobs wait until the next change");
}

static void arm(struct manager *m);

uint64_t schedule_moved(uint64_t usec, int64_t step)
{
	if (usec == 0)
		return 0;
	return step < 0 && usec <= (uint64_t)-step ? 1 : usec + (uint64_t)step;
}

/* All by the same, so that their order stays. */
static void move_windows(struct manager *m, int64_t step)
{
	struct job *j;

	TAILQ_FOREACH(j, &m->jobs.in_order, in_order)
	{
		j->again_usec = schedule_moved(j->again_usec, step);
		if (j->r.held_until_usec == 0 || j->r.started_usec > 0)
			continue;
		j->r.held_until_usec = schedule_moved(j->r.held_until_usec, step);
		/* What is still being submitted is saved when its names have been moved. */
		if (j->doing != DOING_SUBMIT)
			job_save(j, NULL, NULL);
	}
}

uint64_t schedule_clock(struct manager *m)
{
	int64_t offset = manager_clock_offset(), step = offset - m->clock_offset;

	if (m->clock_offset == 0) {
		m->clock_offset = offset;
	} else if (step > STEP_LEAST_USEC || step < -STEP_LEAST_USEC) {
		m->clock_offset = offset;
		log_line(LOG_NOTICE,
			 "The clock was set %s by %" PRIi64 " s: what is held stays so for as long "
			 "as it would have",
			 step < 0 ? "back" : "forward",
			 (step < 0 ? -step : step) / (int64_t)USEC_PER_SEC);
		move_windows(m, step);
	}
	return manager_clock() - (uint64_t)offset + (uint64_t)m->clock_offset;
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *m = userdata;
	uint64_t now = schedule_clock(m);
	struct job *j;

	(void)source;
	(void)usec;
	while ((j = due_first(&m->due)) && due_usec(j) <= now) {
		due_remove(&m->due, j);
		schedule_job(j);
		job_save(j, NULL, NULL);
	}
	arm(m);
	return 0;
}

/* By a clock that nobody sets, and that goes on while the machine sleeps. */
static void arm(struct manager *m)
{
	struct job *j = due_first(&m->due);
	uint64_t due = j ? schedule_moved(due_usec(j), -m->clock_offset) : 0;

	if (!j) {
		(void)sd_event_source_set_enabled(m->due_timer, SD_EVENT_OFF);
		return;
	}
	if (!m->due_timer) {
		if (sd_event_add_time(m->event, &m->due_timer, CLOCK_BOOTTIME, due,
				      DUE_ACCURACY_USEC, on_due, m) < 0)
			log_line(LOG_ERR, "Out of memory: jobs that wait for a time wait for the "
					  "next change");
		else
			(void)sd_event_source_set_description(m->due_timer, "undo");
		return;
	}
	(void)sd_event_source_set_time(m->due_timer, due);
	(void)sd_event_source_set_enabled(m->due_timer, SD_EVENT_ONESHOT);
}

static void wait_until_due(struct job *j, enum job_state s)
{
	due_add(&j->manager->due, j);
	arm(j->manager);
	if (j->r.state != s)
		job_set_state(j, s);
}

void schedule_job(struct job *j)
{
	struct manager *m = j->manager;
	uint64_t now = schedule_clock(m);

	schedule_remove(j);
	j->doing = DOING_NOTHING;
	if (j->r.held_until_usec > now && j->r.started_usec == 0) {
		j->again_usec = 0;
		wait_until_due(j, JOB_HELD);
		return;
	}
	if (j->again_usec > now) {
		wait_until_due(j, JOB_QUEUED);
		return;
	}
	j->again_usec = 0;
	TAILQ_INSERT_TAIL(&j->place->queues[j->r.priority], j, in_queue);
	j->queued = true;
	if (j->r.state != JOB_QUEUED)
		job_set_state(j, JOB_QUEUED);
	schedule_kick(m);
}

void schedule_remove(struct job *j)
{
	due_remove(&j->manager->due, j);
	if (j->queued)
		TAILQ_REMOVE(&j->place->queues[j->r.priority], j, in_queue);
	j->queued = false;
}

void schedule_look_again(struct manager *m)
{
	struct place *p;

	LIST_FOREACH(p, &m->places, link)
	p->absent = false;
	schedule_kick(m);
}
