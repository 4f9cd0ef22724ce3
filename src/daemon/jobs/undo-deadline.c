/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "undo-deadline.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/context/log.h"
#include "daemon/context/timer.h"

/* Times of people: none notices a tenth of a second. */
#define DEADLINE_ACCURACY_USEC (100 * USEC_PER_MSEC)

/* What is less is a clock that is being corrected. */
#define STEP_LEAST_USEC ((int64_t)USEC_PER_SEC)

uint64_t deadline_moved(uint64_t usec, int64_t step)
{
	if (usec == 0)
		return 0;
	return step < 0 && usec <= (uint64_t)-step ? 1 : usec + (uint64_t)step;
}

/* A change of the clock, for the store thread. */
struct clock_step {
	struct context *context;
	int64_t usec;
};

static int step_work(struct store *store, void *userdata)
{
	const struct clock_step *step = userdata;

	return store_windows_move(store, step->usec);
}

static void step_done(int r, void *userdata)
{
	struct clock_step *step = userdata;

	store_says(step->context, r);
	free(step);
}

/* Moves the windows of all jobs in the store. If that fails, the jobs that rest keep their times in
 * memory, and a restart holds them for as long as the clock says. */
static void move_stored_windows(struct jobs *jobs, int64_t usec)
{
	struct clock_step *step = malloc(sizeof(*step));
	int r = -ENOMEM;

	if (step) {
		*step = (struct clock_step){ jobs->context, usec };
		r = store_queue_post(jobs->context->store, step_work, step_done, step);
	}
	if (r < 0) {
		free(step);
		store_says(jobs->context, r);
	}
}

/* Moves all windows by the same time. The times in the heap are of a clock that cannot be set, and
 * stay. */
static void move_windows(struct jobs *jobs, int64_t step)
{
	struct job_stub *s;
	struct job *j;

	TAILQ_FOREACH(s, &jobs->table.in_order, in_order)
		if (!s->started)
			s->held_until_usec = deadline_moved(s->held_until_usec, step);
	move_stored_windows(jobs, step);
	TAILQ_FOREACH(j, &jobs->table.awake, awake) {
		j->retry_usec = deadline_moved(j->retry_usec, step);
		if (j->r.held_until_usec == 0 || j->r.started_usec > 0)
			continue;
		j->r.held_until_usec = deadline_moved(j->r.held_until_usec, step);
		/* What is still being submitted is saved when its names have been moved. */
		if (j->phase != PHASE_MOVING)
			job_save(j, NULL, NULL);
	}
}

uint64_t deadline_clock(struct jobs *jobs)
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

static uint64_t since_boot(struct jobs *jobs, uint64_t usec)
{
	return deadline_moved(usec, -jobs->clock_offset);
}

static void arm(struct jobs *jobs);

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct jobs *jobs = userdata;
	/* Once, and by the heap's clock: the other one may be set while jobs are told. */
	uint64_t now = since_boot(jobs, deadline_clock(jobs));
	struct due *first;

	(void)source;
	(void)usec;
	while ((first = due_heap_first(&jobs->waiting)) && first->usec <= now) {
		due_heap_remove(&jobs->waiting, first);
		jobs->due((struct job_stub *)((char *)first - offsetof(struct job_stub, due)));
	}
	arm(jobs);
	return 0;
}

/* By a clock that cannot be set, and that goes on while the machine sleeps. */
static void arm(struct jobs *jobs)
{
	const struct due *first = due_heap_first(&jobs->waiting);

	if (first && timer_at(jobs->context->event, &jobs->deadline_timer, CLOCK_BOOTTIME,
			      first->usec, DEADLINE_ACCURACY_USEC, on_deadline, jobs, "undo") < 0)
		log_line(LOG_ERR, "Out of memory: jobs that wait for a time wait for the next "
				  "change");
}

void deadline_wait(struct job_stub *s, uint64_t usec)
{
	due_heap_add(&s->jobs->waiting, &s->due, since_boot(s->jobs, usec));
	arm(s->jobs);
}

void deadline_remove(struct job_stub *s)
{
	due_heap_remove(&s->jobs->waiting, &s->due);
}

uint64_t deadline_of(const struct job_stub *s)
{
	return deadline_moved(s->due.usec, s->jobs->clock_offset);
}
